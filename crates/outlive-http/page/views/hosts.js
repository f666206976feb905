// Other machines: their jobs, as they are now or, where one cannot be reached, as they were.

import { ask } from '../api.js';
import { Cards, none } from './cards.js';
import { duration, el, isLive, mood, shape, statusText, words } from '../dom.js';

// Each look asks every machine over its connection.
const EVERY = 15_000;

export class Hosts extends Cards {
  constructor(root, access) {
    super(root, 'Machines', access, {
      every: EVERY,
      read: () => ask('hosts'),
      draw: (hosts) => (hosts.length ? hosts.map((host) => this.card(host)) : [none('No other machine', 'Name one in config.toml:', '[hosts.gpu1]\naddress = "ssh://gpu1"')]),
    });
  }

  // What happens on this machine says nothing of the others.
  changed() {}

  card({ host, jobs, unreachable, unreachable_ms: age }) {
    const isOld = unreachable !== null;
    const since = age === null ? '' : `${duration(age)} ago`;
    const row = (job) => {
      // Of a job that lived when the machine was last seen no more is known than that.
      const isUnknown = isOld && isLive(job);
      const kind = isUnknown ? 'lost' : mood(job);
      const status = isUnknown ? `unreachable, ${words(job.status)} ${since}` : statusText(job);
      return el('li', { data: { mood: kind } }, el('span', { class: 'icon' }, shape(kind)), el('p', {}, el('code', {}, `${host}/${job.job}`), el('span', { class: 'found' }, status)),
        el('code', { class: 'command', title: job.command }, job.command));
    };
    // One that was never seen has nothing to tell, not even that nothing lives there.
    const isKnown = !isOld || age !== null;
    const live = jobs.filter(isLive);
    const ended = jobs.filter((job) => !isLive(job)).slice(0, 20);
    return el('section', { class: 'card', 'aria-label': `Machine ${host}` },
      el('div', { class: 'title' }, el('h2', {}, host), el('span', { class: 'status pill', data: { mood: isOld ? 'lost' : 'completed' } }, el('span', { class: 'icon' }, shape(isOld ? 'lost' : 'completed')), isOld ? `unreachable${since && `, last seen ${since}`}` : 'reachable')),
      isOld && el('p', { class: 'foot' }, unreachable),
      isKnown && el('h3', {}, isOld ? `${live.length} live when last seen` : `${live.length} live`), live.length > 0 && el('ul', { class: 'machine' }, live.map(row)),
      ended.length > 0 && el('h3', {}, 'ended, the newest first'), ended.length > 0 && el('ul', { class: 'machine' }, ended.map(row)),
      jobs.length - live.length > ended.length && el('p', { class: 'foot' }, 'More: ', el('code', {}, `outlive --host ${host} list --all`)));
  }
}
