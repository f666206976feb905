// All jobs, live.

import { ask } from '../api.js';
import { leaving } from '../actions.js';
import { ago, duration, el, fill, isLive, mood, oneAtATime, setText, shape, size, sparkline, statusText, until } from '../dom.js';

const VIEWS = [['all', 'All'], ['live', 'Live'], ['asks', 'Asking'], ['failed', 'Failed'], ['ended', 'Ended']];
const HISTORY = 30;
const COUNT = new Intl.NumberFormat(undefined, { notation: 'compact' });

// What is remembered while the page is open: the figures of the last minute, and what was filtered.
const figures = new Map();
const kept = { view: 'all', search: '', session: '' };

const isFailed = (job) => ['failed', 'timed_out', 'lost'].includes(job.status);
const fits = {
  all: () => true,
  live: isLive,
  asks: (job) => mood(job) === 'asks',
  failed: isFailed,
  ended: (job) => !isLive(job),
};

export class List {
  constructor(root) {
    this.rows = new Map();
    this.jobs = [];
    this.refresh = oneAtATime(() => this.read());
    this.search = el('input', { type: 'search', id: 'search', placeholder: 'Filter by name, id, command…  ( / )', 'aria-label': 'Filter jobs', value: kept.search, autocomplete: 'off', spellcheck: 'false',
      on: { input: () => { kept.search = this.search.value; this.draw(); } } });
    this.search.value = kept.search;
    this.views = el('div', { class: 'views', role: 'group', 'aria-label': 'Which jobs' }, VIEWS.map(([view, text]) =>
      el('button', { type: 'button', data: { view }, 'aria-pressed': String(view === kept.view), on: { click: () => this.show(view) } }, text, el('span', { class: 'count' }))));
    this.session = el('select', { 'aria-label': 'Session', on: { change: () => { kept.session = this.session.value; this.draw(); } } });
    this.items = el('ul', { class: 'jobs', 'aria-label': 'Jobs' });
    this.empty = el('div', { class: 'empty', hidden: true });
    this.head = el('div', { class: 'row head', 'aria-hidden': 'true' }, ['Status', 'Job', 'Command', 'Ports', 'Use', 'Started', 'Time'].map((text) => el('span', {}, text)));
    root.replaceChildren(
      el('h1', { class: 'unseen' }, 'Jobs'),
      el('div', { class: 'tools' }, this.views, el('span', { class: 'grow' }), this.session, this.search),
      this.head, this.items, this.empty);
    this.refresh();
    this.timer = setInterval(() => this.measure(), 3000);
    this.tick = setInterval(() => this.times(), 1000);
  }

  close() {
    this.isClosed = true;
    clearInterval(this.timer);
    clearInterval(this.tick);
  }

  show(view) {
    kept.view = view;
    for (const button of this.views.children) button.setAttribute('aria-pressed', String(button.dataset.view === view));
    this.draw();
  }

  // Something happened: look again, soon and once.
  changed() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    setTimeout(() => { this.isWaiting = false; if (!this.isClosed) this.refresh(); }, 120);
  }

  async read() {
    if (this.isClosed) return;
    try {
      const answer = await ask('jobs', { query: { limit: 2000 } });
      if (this.isClosed) return;
      for (const job of answer.jobs) job.seen = Date.now();
      this.jobs = answer.jobs.filter((job) => !leaving.has(job.job));
      this.draw();
      this.measure();
    } catch (problem) {
      if (!this.jobs.length && !this.isClosed) this.say('The jobs cannot be read', problem.message);
    }
  }

  // What live jobs use: a short question, asked while the page is looked at.
  async measure() {
    if (document.hidden || this.isMeasuring || !this.jobs.some(isLive)) return;
    this.isMeasuring = true;
    try {
      const answer = await ask('jobs', { query: { live: true, usage: true, ports: true, limit: 500 } });
      const now = performance.now();
      for (const { job, usage, ports } of answer.jobs) {
        const past = figures.get(job) ?? { cpu: [], memory: [] };
        if (usage?.cpu_ms !== null && past.at) past.cpu.push(Math.max(0, (usage.cpu_ms - past.cpu_ms) / (now - past.at)) * 100);
        if (usage?.memory_bytes) past.memory.push(usage.memory_bytes);
        Object.assign(past, { at: now, cpu_ms: usage?.cpu_ms, ports });
        for (const values of [past.cpu, past.memory]) if (values.length > HISTORY) values.shift();
        figures.set(job, past);
      }
      if (!this.isClosed) this.draw();
    } catch { /* what is shown stays; the line at the top says that it is old */ } finally { this.isMeasuring = false; }
  }

  draw() {
    const sessions = [...new Set(this.jobs.map((job) => job.session))].sort();
    const names = ['', ...sessions].join('\n');
    if (this.session.dataset.names !== names) {
      this.session.dataset.names = names;
      this.session.replaceChildren(el('option', { value: '' }, 'All sessions'), ...sessions.map((name) => el('option', { value: name }, name)));
      this.session.value = sessions.includes(kept.session) ? kept.session : '';
    }
    this.session.hidden = sessions.length < 2;
    const wanted = kept.search.trim().toLowerCase();
    const found = this.jobs.filter((job) => (!this.session.value || job.session === this.session.value)
      && (!wanted || `${job.job} ${job.name ?? ''} ${job.command} ${job.group ?? ''} ${(figures.get(job.job)?.ports ?? []).map((port) => port.port).join(' ')}`.toLowerCase().includes(wanted)));
    for (const button of this.views.children) setText(button.querySelector('.count'), COUNT.format(found.filter(fits[button.dataset.view]).length));
    const shown = found.filter(fits[kept.view]);
    // Those who wait for an answer first, then what runs, then the newest.
    const rank = (job) => (mood(job) === 'asks' ? 0 : isLive(job) ? 1 : 2);
    shown.sort((a, b) => rank(a) - rank(b));
    const ids = new Set(shown.map((job) => job.job));
    for (const [id, row] of this.rows) if (!ids.has(id)) { row.item.remove(); this.rows.delete(id); }
    let after = null;
    for (const job of shown) {
      let row = this.rows.get(job.job);
      if (!row) { row = makeRow(job.job); this.rows.set(job.job, row); }
      fillRow(row, job);
      const place = after ? after.nextSibling : this.items.firstChild;
      if (place !== row.item) this.items.insertBefore(row.item, place);
      after = row.item;
    }
    this.head.hidden = shown.length === 0;
    this.empty.hidden = shown.length > 0;
    if (shown.length) return;
    if (this.jobs.length) this.say('No job fits', 'Choose another view above, or clear the filter.');
    else this.say('No jobs yet', 'A job goes on when this page, the terminal or the connection is closed.', 'outlive run --name web \'npm run dev\'');
  }

  say(title, text, command) {
    this.empty.hidden = false;
    fill(this.empty, el('h2', {}, title), el('p', {}, text), command && el('pre', {}, command));
  }

  times() {
    for (const row of this.rows.values()) time(row);
  }

  // Moves between rows by keys.
  move(step) {
    const links = [...this.items.querySelectorAll('a.name')];
    const at = links.indexOf(document.activeElement?.closest('li')?.querySelector('a.name'));
    links[Math.min(links.length - 1, Math.max(0, at + step))]?.focus();
  }
}

function makeRow(id) {
  const parts = {
    status: el('span', { class: 'status' }), icon: el('span', { class: 'icon' }), word: el('span', { class: 'word' }),
    name: el('a', { class: 'name', href: `#/job/${encodeURIComponent(id)}` }), id: el('span', { class: 'id' }), command: el('code', { class: 'command' }),
    ports: el('span', { class: 'ports' }), use: el('span', { class: 'use' }), started: el('span', { class: 'started' }), time: el('span', { class: 'time' }),
  };
  parts.status.append(parts.icon, parts.word);
  parts.item = el('li', { class: 'row' }, parts.status, el('span', { class: 'who' }, parts.name, parts.id), parts.command, parts.ports, parts.use, parts.started, parts.time);
  return parts;
}

function fillRow(row, job) {
  row.job = job;
  const kind = mood(job);
  if (row.item.dataset.mood !== kind) { row.item.dataset.mood = kind; row.icon.replaceChildren(shape(kind)); }
  setText(row.word, statusText(job));
  setText(row.name, job.name ?? job.job);
  setText(row.id, [job.name ? job.job : '', job.session === 'default' ? '' : job.session].filter(Boolean).join(' · '));
  setText(row.command, job.command);
  row.command.title = job.command;
  const live = isLive(job) && job.started_at ? figures.get(job.job) : null;
  const ports = live?.ports ?? [];
  const text = ports.map((port) => port.url).join(' ');
  if (row.ports.dataset.text !== text) {
    row.ports.dataset.text = text;
    row.ports.replaceChildren(...ports.slice(0, 3).map((port) => el('a', { href: port.url, target: '_blank', rel: 'noopener noreferrer' }, `:${port.port}`)));
  }
  if (row.measured !== live?.at) {
    row.measured = live?.at;
    const percent = (cpu) => `${cpu < 10 ? cpu.toFixed(1) : Math.round(cpu)} %`;
    fill(row.use, live && [course(live.cpu, percent, 'Processor time of late'), course(live.memory, size, 'Memory of late')]);
  }
  time(row);
}

// A figure, and the way it came: a line from the second on.
function course(values, write, label) {
  return values.length > 0 && el('span', {}, values.length > 1 && sparkline(values, label), el('span', {}, write(values.at(-1))));
}

function time(row) {
  const { job } = row;
  setText(row.started, job.started_at || !job.next_run_at ? ago(job.started_at) : until(job.next_run_at));
  const ms = isLive(job) && job.status === 'running' && job.runtime_ms !== null ? job.runtime_ms + (Date.now() - job.seen) : job.runtime_ms;
  setText(row.time, duration(ms));
}
