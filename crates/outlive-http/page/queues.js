// Queues: what runs, what waits and in which order.

import { ask } from './api.js';
import { attempt } from './actions.js';
import { el, fill } from './dom.js';

export class Queues {
  constructor(root, { canDrive }) {
    this.canDrive = canDrive;
    this.items = el('div', { class: 'cards' });
    fill(root, el('h1', {}, 'Queues'), this.items);
    this.refresh();
    this.timer = setInterval(() => { if (!document.hidden) this.refresh(); }, 3000);
  }

  close() {
    this.isClosed = true;
    clearInterval(this.timer);
  }

  changed() {
    this.refresh();
  }

  async refresh() {
    let queues;
    try { queues = await ask('queues'); } catch { return; }
    const text = JSON.stringify(queues);
    if (this.isClosed || this.text === text) return;
    this.text = text;
    // What has the focus is drawn anew: it gets it back.
    const focused = document.activeElement?.dataset.key;
    fill(this.items, queues.length === 0 && el('div', { class: 'empty' }, el('h2', {}, 'No queue'), el('p', {}, 'One begins with its first job:'), el('pre', {}, "outlive run --queue NAME 'LINE'")), queues.map((queue) => this.card(queue)));
    if (focused) this.items.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  card({ queue, parallel, paused, running, queued }) {
    const link = (job) => el('li', {}, el('a', { href: `#/job/${encodeURIComponent(job)}` }, job));
    const change = (body, done) => attempt(() => ask(`queues/${encodeURIComponent(queue)}`, { method: 'POST', body }), done).then(() => this.refresh());
    const many = el('input', { type: 'number', min: '1', max: '1000', value: String(parallel), data: { key: `${queue} parallel` }, 'aria-label': `Jobs of ${queue} that run at once`, disabled: !this.canDrive, on: { change: () => change({ parallel: Number(many.value) }, `${queue}: ${many.value} at once`) } });
    return el('section', { class: 'card', 'aria-label': `Queue ${queue}` },
      el('div', { class: 'title' }, el('h2', {}, queue), paused && el('span', { class: 'status pill' }, 'paused'), el('span', { class: 'grow' }),
        el('label', { class: 'many' }, 'at once ', many),
        this.canDrive && el('button', { type: 'button', data: { key: `${queue} pause` }, on: { click: () => change({ paused: !paused }, paused ? `${queue} goes on` : `${queue} is paused`) } }, paused ? 'Resume' : 'Pause')),
      el('h3', {}, `${running.length} running`), el('ul', { class: 'ids' }, running.map(link)),
      el('h3', {}, `${queued.length} waiting`), el('ol', { class: 'ids' }, queued.slice(0, 200).map(link)),
      queued.length > 200 && el('p', { class: 'foot' }, `and ${queued.length - 200} more`));
  }
}
