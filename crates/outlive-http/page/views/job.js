// One job: its log, terminal, events and facts, and what can be done to it.

import { act, ask, job as path } from '../api.js';
import { attempt, kill, remove, rename } from '../actions.js';
import { ago, clock, duration, el, fill, isLive, mood, setText, shape, size, statusText, until, words } from '../dom.js';
import { Log } from './log.js';
import { Recording } from './recording.js';
import { Terminal } from './terminal.js';

export class Job {
  constructor(root, id, { canDrive }) {
    this.root = root;
    this.id = id;
    this.canDrive = canDrive;
    this.refresh(true);
    this.timer = setInterval(() => { if (!document.hidden && (!this.job || isLive(this.job))) this.refresh(); }, 2500);
  }

  close() {
    this.isClosed = true;
    clearInterval(this.timer);
    this.view?.close();
  }

  changed(event) {
    if (!event || event.job === this.id) this.refresh();
  }

  async refresh(isFirst) {
    try {
      const job = await ask(path(this.id));
      if (this.isClosed) return;
      job.seen = Date.now();
      this.job = job;
      if (isFirst || !this.head) this.build();
      this.fill();
    } catch (problem) {
      if (this.isClosed || this.head) return;
      document.title = 'outlive';
      this.root.replaceChildren(el('div', { class: 'empty' }, el('h1', {}, 'This job is not here'), el('p', {}, problem.message), el('p', {}, el('a', { href: '#/' }, 'All jobs'))));
    }
  }

  build() {
    const { job } = this;
    this.id = job.job;
    const tabs = [['log', 'Log'], ...(job.pty ? [['terminal', 'Terminal']] : []), ...(job.pty && job.started_at ? [['recording', 'Recording']] : []), ['events', 'Events'], ['facts', 'Facts']];
    this.icon = el('span', { class: 'icon' });
    this.word = el('span', { class: 'word' });
    this.status = el('span', { class: 'status pill' }, this.icon, this.word);
    this.name = el('h1', { tabindex: '-1' });
    this.line = el('p', { class: 'facts' });
    this.command = el('code', { class: 'command', tabindex: '0', role: 'group', 'aria-label': 'Command' });
    this.actions = el('div', { class: 'actions' });
    this.ask = el('form', { class: 'ask', hidden: true });
    this.tabs = el('div', { class: 'views', role: 'tablist', 'aria-label': 'What to see of the job' }, tabs.map(([key, text]) =>
      el('button', { type: 'button', role: 'tab', id: `tab-${key}`, 'aria-controls': 'panel', data: { key }, on: { click: () => this.show(key), keydown: (event) => this.arrow(event) } }, text)));
    this.panel = el('div', { id: 'panel', class: 'panel', role: 'tabpanel' });
    this.head = el('header', { class: 'job' }, el('a', { class: 'back', href: '#/' }, '← All jobs'),
      el('div', { class: 'title' }, this.name, this.status, el('span', { class: 'grow' }), this.actions), this.command, this.line);
    this.root.replaceChildren(this.head, this.ask, this.tabs, this.panel);
    this.show(job.pty && isLive(job) ? 'terminal' : 'log');
  }

  arrow(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const all = [...this.tabs.children];
    const next = all[(all.indexOf(event.target) + step + all.length) % all.length];
    this.show(next.dataset.key);
    next.focus();
  }

  show(key) {
    if (this.shown === key) return;
    this.view?.close();
    this.shown = key;
    for (const tab of this.tabs.children) {
      const isOn = tab.dataset.key === key;
      tab.setAttribute('aria-selected', String(isOn));
      tab.tabIndex = isOn ? 0 : -1;
    }
    this.panel.setAttribute('aria-labelledby', `tab-${key}`);
    this.panel.dataset.key = key;
    this.view = { log: () => new Log(this.panel, this.job), terminal: () => new Terminal(this.panel, this.job, this), recording: () => new Recording(this.panel, this.job), events: () => new Happened(this.panel, this.job), facts: () => new Facts(this.panel, this.job) }[key]();
  }

  fill() {
    const { job } = this;
    const kind = mood(job);
    if (this.head.dataset.mood !== kind) { this.head.dataset.mood = kind; this.icon.replaceChildren(shape(kind)); }
    setText(this.word, statusText(job));
    setText(this.name, job.name ?? job.job);
    setText(this.command, job.command);
    document.title = `${job.name ?? job.job}: ${words(job.status)}`;
    const use = [job.usage?.memory_bytes && `${size(job.usage.memory_bytes)} of memory`, job.usage?.cpu_ms && `${duration(job.usage.cpu_ms)} of processor time`].filter(Boolean);
    const parts = [job.name && job.job, job.started_at ? `started ${ago(job.started_at)}` : job.next_run_at && `starts ${until(job.next_run_at)}`, job.runtime_ms !== null && (isLive(job) ? `for ${duration(job.runtime_ms)}` : `took ${duration(job.runtime_ms)}`), !isLive(job) && job.reason, ...(isLive(job) ? use : []), `in ${job.cwd}`].filter(Boolean);
    const text = parts.join(' · ');
    const ports = (job.ports ?? []).map((port) => port.url).join(' ');
    if (this.line.dataset.text !== text + ports) {
      this.line.dataset.text = text + ports;
      this.line.replaceChildren(text, ...(job.ports ?? []).flatMap((port) => [' · ', el('a', { href: port.url, target: '_blank', rel: 'noopener noreferrer' }, port.url)]));
    }
    this.fillActions();
    this.fillAsk();
    if (this.view instanceof Facts || this.view instanceof Recording) this.view.fill(job);
  }

  fillActions() {
    const { job } = this;
    const live = isLive(job);
    const state = `${live}${job.paused}${this.canDrive}`;
    if (this.actions.dataset.state === state) return;
    this.actions.dataset.state = state;
    if (!this.canDrive) { this.actions.replaceChildren(el('span', { class: 'found' }, 'view only')); return; }
    const button = (text, handler, kind = '') => el('button', { type: 'button', class: kind, on: { click: handler } }, text);
    const verb = (text, name, done) => button(text, () => attempt(() => act(this.id, name), done).then(() => this.refresh()));
    this.actions.replaceChildren(
      button('Rename', () => rename(this.job).then(() => this.refresh())),
      ...(live ? [job.paused ? verb('Resume', 'resume', 'It goes on') : verb('Pause', 'pause', 'Paused')] : []),
      button('Restart', async () => { const next = await attempt(() => act(this.id, 'restart'), (answer) => `${answer.job} runs`); if (next) location.hash = `#/job/${encodeURIComponent(next.job)}`; }),
      live ? button('End', () => kill(this.job).then(() => this.refresh()), 'danger') : button('Remove', () => remove(this.job), 'danger'));
  }

  // A question of the job, or a line for its input.
  fillAsk() {
    const { job } = this;
    const awaits = job.awaits && job.awaits.kind !== 'keys' ? job.awaits : null;
    const takes = this.canDrive && isLive(job) && (awaits || (job.stdin === 'open' && !job.pty));
    const state = JSON.stringify([takes, awaits?.kind, awaits?.prompt]);
    if (this.ask.dataset.state === state) return;
    this.ask.dataset.state = state;
    this.ask.hidden = !takes;
    if (!takes) return;
    const isSecret = awaits?.kind === 'password';
    const label = awaits ? (awaits.prompt || (isSecret ? 'It asks for a password' : 'It asks')) : 'Write to its input';
    const input = el('input', { type: isSecret ? 'password' : 'text', autocomplete: 'off', spellcheck: 'false', id: 'answer' });
    this.ask.classList.toggle('asking', Boolean(awaits));
    fill(this.ask, el('label', { for: 'answer' }, label), input, el('button', { class: 'primary' }, awaits ? 'Answer' : 'Send'),
      !job.pty && el('button', { type: 'button', class: 'quiet', on: { click: () => attempt(() => act(this.id, 'input', { eof: true }), 'Its input is closed') } }, 'Close its input'));
    this.ask.onsubmit = async (event) => {
      event.preventDefault();
      const text = input.value;
      input.value = '';
      await attempt(() => act(this.id, 'input', isSecret ? { secret: text } : { text }));
      setTimeout(() => this.refresh(), 300);
    };
  }

  move() {}
}

class Happened {
  constructor(root, job) {
    this.list = el('ol', { class: 'events' });
    root.replaceChildren(this.list, el('p', { class: 'foot' }, 'What happened to this job, the newest first.'));
    this.source = new EventSource(`v1/events?after=0&job=${encodeURIComponent(job.job)}`);
    this.source.addEventListener('event', (event) => this.add(JSON.parse(event.data)));
  }

  add(event) {
    const more = [event.status && words(event.status), event.exit_code !== null && `exit code ${event.exit_code}`, event.signal, event.limit, event.awaits, event.url].filter(Boolean).join(', ');
    this.list.prepend(el('li', {}, el('time', { datetime: event.at }, clock(event.at)), el('strong', {}, words(event.event)), el('span', {}, more), event.tail && el('pre', {}, event.tail)));
  }

  close() { this.source.close(); }
}

class Facts {
  constructor(root, job) {
    this.root = root;
    this.fill(job);
  }

  fill(job) {
    const text = JSON.stringify({ ...job, seen: 0, runtime_ms: 0 });
    if (this.text === text) return;
    this.text = text;
    const facts = [['Id', job.job], ['Session', job.session], ['Group', job.group], ['Reason', job.reason], ['Directory', job.cwd], ['Started', clock(job.started_at)], ['Ended', clock(job.ended_at)], ['Pid', job.pid], ['Keeper', job.keeper_pid], ['Containment', job.containment], ['Ready', job.ready === null ? null : String(job.ready)], ['Timeout', duration(job.timeout_ms)], ['Grace', duration(job.grace_ms)], ['Previous run', job.previous], ['Started from', job.parent], ['Labels', Object.entries(job.labels).map(([name, value]) => `${name}=${value}`).join(', ')], ['Variables', Object.keys(job.env_set).join(', ')], ['Memory at most', size(job.usage?.memory_peak_bytes)], ['Output', `${size(job.output.bytes)} in ${job.output.lines.toLocaleString()} lines`], ['Files', job.directory]];
    const processes = job.processes ?? [];
    fill(this.root,
      el('dl', { class: 'facts-list' }, facts.filter(([, value]) => value !== null && value !== undefined && value !== '').flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, String(value))])),
      processes.length > 0 && el('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': 'Processes' }, el('table', {}, el('caption', {}, `${processes.length} ${processes.length === 1 ? 'process' : 'processes'}`),
        el('thead', {}, el('tr', {}, ['Pid', 'Parent', 'State', 'CPU', 'Memory', 'Command'].map((name) => el('th', { scope: 'col' }, name)))),
        el('tbody', {}, processes.map((one) => el('tr', {}, [one.pid, one.parent, one.state, duration(one.cpu_ms), size(one.rss_bytes), one.command].map((value) => el('td', {}, String(value ?? '')))))))));
  }

  close() {}
}
