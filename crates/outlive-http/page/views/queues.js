// Queues: what runs, what waits and in which order.

import { ask } from '../api.js';
import { attempt } from '../actions.js';
import { Cards, none } from './cards.js';
import { el } from '../dom.js';

export class Queues extends Cards {
  constructor(root, access) {
    super(root, 'Queues', access, {
      read: () => ask('queues'),
      draw: (queues) => (queues.length ? queues.map((queue) => this.card(queue)) : [none('No queue', 'One begins with its first job:', "outlive run --queue NAME 'LINE'")]),
    });
  }

  card({ queue, parallel, paused, running, queued }) {
    const link = (job) => el('li', {}, el('a', { href: `#/job/${encodeURIComponent(job)}` }, job));
    const change = (body, done) => attempt(() => ask(`queues/${encodeURIComponent(queue)}`, { method: 'POST', body }), done).then(() => this.refresh());
    const many = el('input', { type: 'number', min: '1', max: '1000', value: String(parallel), data: { key: `${queue} parallel` }, 'aria-label': `Jobs of ${queue} that run at once`, disabled: !this.canDrive, on: { change: () => { many.defaultValue = many.value; change({ parallel: Number(many.value) }, `${queue}: ${many.value} at once`); } } });
    return el('section', { class: 'card', 'aria-label': `Queue ${queue}` },
      el('div', { class: 'title' }, el('h2', {}, queue), paused && el('span', { class: 'status pill' }, 'paused'), el('span', { class: 'grow' }),
        el('label', { class: 'many' }, 'at once ', many),
        this.canDrive && el('button', { type: 'button', data: { key: `${queue} pause` }, on: { click: () => change({ paused: !paused }, paused ? `${queue} goes on` : `${queue} is paused`) } }, paused ? 'Resume' : 'Pause')),
      el('h3', {}, `${running.length} running`), el('ul', { class: 'ids' }, running.map(link)),
      el('h3', {}, `${queued.length} waiting`), el('ol', { class: 'ids' }, queued.slice(0, 200).map(link)),
      queued.length > 200 && el('p', { class: 'foot' }, `and ${queued.length - 200} more`));
  }
}
