// Other machines: their jobs, as they are now or, where one cannot be reached, as they were.

import { ask } from '../api.js';
import { Cards, none } from './cards.js';
import { duration, el, isLive, statusText, words } from '../dom.js';

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
    const since = age === null ? '' : `, ${duration(age)} ago`;
    const row = (job) => {
      // Of a job that lived when the machine was last seen no more is known than that.
      const status = isOld && isLive(job) ? `unreachable, ${words(job.status)}${since}` : statusText(job);
      return el('li', {}, `${host}/${job.job} `, el('span', { class: 'status pill' }, status), ` ${job.command}`);
    };
    // One that was never seen has nothing to tell, not even that nothing lives there.
    const isKnown = !isOld || age !== null;
    const live = jobs.filter(isLive);
    const ended = jobs.filter((job) => !isLive(job)).slice(0, 20);
    return el('section', { class: 'card', 'aria-label': `Machine ${host}` },
      el('div', { class: 'title' }, el('h2', {}, host), isOld && el('span', { class: 'status pill' }, `unreachable${since}`)),
      isOld && el('p', { class: 'foot' }, unreachable),
      isKnown && el('h3', {}, isOld ? `${live.length} live when last seen` : `${live.length} live`), live.length > 0 && el('ul', { class: 'ids' }, live.map(row)),
      ended.length > 0 && el('h3', {}, 'ended'), ended.length > 0 && el('ul', { class: 'ids' }, ended.map(row)));
  }
}
