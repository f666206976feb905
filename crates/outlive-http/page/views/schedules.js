// Schedules: what is run again and again, when it comes next, and how its last runs went.

import { act, ask } from '../api.js';
import { attempt, dialog } from '../actions.js';
import { Cards, none } from './cards.js';
import { ago, clock, el, isLive, mood, shape, statusText, until } from '../dom.js';

const RUNS = 12;
const link = (job) => `#/job/${encodeURIComponent(job.job)}`;

export class Schedules extends Cards {
  constructor(root, access) {
    super(root, 'Schedules', access, {
      // With the minute, so that what is told of the time stays true.
      read: async () => [(await ask('jobs', { query: { scheduled: true, limit: 2000 } })).jobs, Math.floor(Date.now() / 60000)],
      draw: ([jobs]) => this.all(jobs),
    });
  }

  all(jobs) {
    const known = new Map(jobs.map((job) => [job.job, job]));
    const followed = new Set(jobs.map((job) => job.previous));
    // The last run of each: where that is over, so is the schedule.
    const last = jobs.filter((job) => !followed.has(job.job) && isLive(job));
    last.sort((a, b) => Date.parse(a.next_run_at ?? 0) - Date.parse(b.next_run_at ?? 0));
    if (!last.length) return [none('No schedule', 'A job that is run at its times, without a daemon:', "outlive run --name backup --at 18:00 'LINE'")];
    return last.map((job) => {
      const runs = [];
      for (let run = job.status === 'queued' ? known.get(job.previous) : job; run && runs.length < RUNS; run = known.get(run.previous)) runs.push(run);
      return this.card(job, runs);
    });
  }

  card(job, runs) {
    const name = job.name ?? job.job;
    const next = job.next_run_at ? `${clock(job.next_run_at)}, ${until(job.next_run_at)}` : 'when this run is over';
    return el('section', { class: 'card', 'aria-label': `Schedule of ${name}` },
      el('div', { class: 'title' }, el('h2', {}, el('a', { href: link(job), data: { key: `${job.job} open` } }, name)), job.session !== 'default' && el('span', { class: 'found' }, job.session), el('span', { class: 'grow' }),
        this.canDrive && el('button', { type: 'button', class: 'danger', data: { key: `${name} end` }, on: { click: () => this.end(job, name) } }, 'End')),
      el('code', { class: 'command' }, job.command),
      el('dl', { class: 'facts-list' }, [['Runs', job.schedule], ['Next', next]].flatMap(([term, text]) => [el('dt', {}, term), el('dd', {}, text)])),
      el('h3', {}, runs.length ? 'Last runs, the newest first' : 'It has not run yet'),
      runs.length > 0 && el('ol', { class: 'runs' }, runs.map((run) => {
        const words = `${statusText(run)}, ${ago(run.started_at)}`;
        return el('li', { data: { mood: mood(run) } }, el('a', { class: 'icon', href: link(run), title: words, 'aria-label': words, data: { key: run.job } }, shape(mood(run))));
      })));
  }

  async end(job, name) {
    const data = await dialog(`End the schedule of ${name}?`, [el('p', {}, 'It is not run again, and what runs now is ended. Past runs stay.')], { confirm: 'End it', danger: true });
    if (data) await attempt(() => act(job.job, 'kill', {}), `${name} is not run again`).then(() => this.refresh());
  }
}
