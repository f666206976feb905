// What a job printed: only the lines in view are in the page, so a million scroll as ten do.

import { ask, job as path } from '../api.js';
import { nodes } from '../ansi.js';
import { copy, failed } from '../actions.js';
import { el, setText, size } from '../dom.js';

// So many lines are asked for at once, as far as they are not at the end, and so many of these chunks are kept.
const CHUNK = 400;
const CHUNKS = 10;
// Browsers draw no element that is much higher; beyond it the scroll bar counts in larger steps.
const MOST_PIXELS = 8_000_000;
const PAUSE = 250;
// To the millisecond.
const MOMENT = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23' });
// So many bytes of a line are drawn: a chunk of such lines comes in one answer.
const LONGEST = 10_000;
// The most lines that a search shows.
const MATCHES = 10_000;

export class Log {
  constructor(root, job) {
    this.job = job;
    this.chunks = new Map();
    this.rows = new Map();
    this.total = 0;
    this.end = 0;
    this.start = 0;
    this.isFollowing = true;
    this.matches = null;
    this.abort = new AbortController();
    const toggle = (key, text, title) => el('button', { type: 'button', 'aria-pressed': 'false', title, data: { key }, on: { click: () => this.toggle(key) } }, text);
    this.find = el('input', { type: 'search', placeholder: 'Find in the log…  ( / )', 'aria-label': 'Find in the log', autocomplete: 'off', spellcheck: 'false', on: {
      input: () => { clearTimeout(this.typing); this.typing = setTimeout(() => this.search(), 250); },
      keydown: (event) => { if (event.key === 'Escape' && this.find.value) { event.stopPropagation(); this.find.value = ''; this.search(); } } } });
    this.stream = el('select', { 'aria-label': 'Stream', on: { change: () => this.search() } }, el('option', { value: '' }, 'Both streams'), el('option', { value: 'stdout' }, 'stdout'), el('option', { value: 'stderr' }, 'stderr'));
    this.follow = toggle('follow', 'Follow', 'Stay at the end (f)');
    this.follow.setAttribute('aria-pressed', 'true');
    this.times = toggle('times', 'Times', 'Show when each line came');
    this.found = el('span', { class: 'found', role: 'status' });
    this.pane = el('div', { class: 'lines', tabindex: '0', role: 'region', 'aria-label': 'Log', on: { scroll: () => this.scrolled(), keydown: (event) => this.key(event) } });
    this.space = el('div', { class: 'space' });
    this.view = el('div', { class: 'view' });
    this.none = el('p', { class: 'empty', hidden: true });
    this.pane.append(this.space, this.view, this.none);
    this.foot = el('p', { class: 'foot' });
    root.replaceChildren(
      el('div', { class: 'tools' }, this.find, this.stream, this.found, el('span', { class: 'grow' }), this.follow, this.times,
        el('button', { type: 'button', on: { click: () => this.copy() } }, 'Copy'),
        el('a', { class: 'button', href: `v1/${path(job.job, 'log')}`, download: `${job.job}.log` }, 'Download')),
      this.pane, this.foot);
    const probe = el('div', { class: 'line' }, '0');
    this.view.append(probe);
    this.height = probe.getBoundingClientRect().height || 20;
    probe.remove();
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.pane);
    this.run();
  }

  close() {
    this.abort.abort();
    this.observer.disconnect();
    clearTimeout(this.typing);
  }

  query(more) {
    return { form: 'display', cut: LONGEST, ...more };
  }

  get fits() { return Math.ceil(this.pane.clientHeight / this.height) + 1; }

  // Asks for the end of the log, again and again; an answer comes when there is more. While a job prints without end, what is not
  // in view is not asked for.
  async run() {
    let after;
    while (!this.abort.signal.aborted) {
      const begun = performance.now();
      try {
        const waits = after === undefined ? {} : { after, wait_ms: 25000 };
        const answer = await ask(path(this.job.job, 'output'), { query: this.query({ tail: this.isFollowing && !this.matches ? this.fits : 1, ...waits }), signal: this.abort.signal });
        if (after === undefined || answer.end !== after || answer.total_lines !== this.total) this.took(answer);
        after = answer.end;
        if (!answer.live) { this.isOver = true; this.follow.hidden = true; this.say(); this.draw(); return; }
      } catch (problem) {
        if (this.abort.signal.aborted || problem.status === 404) return;
        await new Promise((resolve) => setTimeout(resolve, 1500));
      }
      // A job that prints without end is drawn a few times a second, not a thousand.
      const left = PAUSE - (performance.now() - begun);
      if (left > 0) await new Promise((resolve) => setTimeout(resolve, left));
    }
  }

  took(answer) {
    const before = this.total;
    Object.assign(this, { total: answer.total_lines, end: answer.end, start: answer.start, isRead: true });
    for (const [at, chunk] of this.chunks) {
      // What had no end may be longer now, and have another number.
      for (const line of chunk.lines.values()) if (!line.ended) chunk.lines.delete(line.line);
      if (at >= Math.floor((before - 1) / CHUNK)) chunk.isWhole = chunk.lines.size === CHUNK;
      // Of a job that prints much only a part was seen.
      if (!chunk.isWhole && at < Math.floor((this.total - 1) / CHUNK) - 1) this.chunks.delete(at);
    }
    for (const line of answer.lines) this.keep(line);
    this.say();
    if (this.matches) { this.searchOn(); return; }
    if (this.isFollowing) this.toEnd(); else this.draw();
  }

  keep(line) {
    const at = Math.floor((line.line - 1) / CHUNK);
    let chunk = this.chunks.get(at);
    if (!chunk) {
      chunk = { lines: new Map() };
      this.chunks.set(at, chunk);
      while (this.chunks.size > CHUNKS) this.chunks.delete(this.chunks.keys().next().value);
    }
    chunk.lines.set(line.line, line);
  }

  async load(at) {
    if (this.chunks.get(at)?.isWhole || this.loading?.has(at)) return;
    (this.loading ??= new Set()).add(at);
    try {
      const answer = await ask(path(this.job.job, 'output'), { query: this.query({ from_line: at * CHUNK + 1, lines: CHUNK }), signal: this.abort.signal });
      // The end may have been told of since; what was not ended then is no news.
      const isOld = answer.end < this.end;
      for (const line of answer.lines) if (Math.floor((line.line - 1) / CHUNK) === at && (line.ended || !isOld)) this.keep(line);
      if (!this.chunks.has(at)) this.chunks.set(at, { lines: new Map() });
      // What is missing of a whole chunk was dropped.
      this.chunks.get(at).isWhole = answer.total_lines >= Math.min(this.total, (at + 1) * CHUNK);
      this.draw();
    } catch { /* asked again when it is looked at again */ } finally { this.loading.delete(at); }
  }

  say() {
    const dropped = this.start > 0 ? `; the first ${size(this.start)} are no longer kept` : '';
    setText(this.foot, `${this.total.toLocaleString()} ${this.total === 1 ? 'line' : 'lines'}, ${size(this.end)}${dropped}${this.isOver ? '' : '; it goes on'}`);
  }

  get count() { return this.matches ? this.matches.length : this.total; }
  get pixels() { return Math.min(this.count * this.height, MOST_PIXELS); }

  first() {
    const room = Math.max(1, this.pixels - this.pane.clientHeight);
    const fits = Math.floor(this.pane.clientHeight / this.height);
    if (this.count * this.height <= MOST_PIXELS) return Math.floor(this.pane.scrollTop / this.height);
    return Math.round((this.pane.scrollTop / room) * Math.max(0, this.count - fits));
  }

  draw() {
    this.none.hidden = this.count > 0 || !this.isRead;
    if (!this.none.hidden) setText(this.none, this.matches ? 'No line fits.' : this.isOver ? 'It printed nothing.' : 'It has printed nothing yet.');
    this.space.style.height = `${this.pixels}px`;
    const first = Math.max(0, Math.min(this.first(), this.count - 1));
    const isScaled = this.count * this.height > MOST_PIXELS;
    this.view.style.transform = `translateY(${isScaled ? this.pane.scrollTop : first * this.height}px)`;
    const lines = [];
    const wanted = new Set();
    const last = Math.min(this.count, first + this.fits);
    for (let at = first; at < last; at += 1) {
      const line = this.matches ? this.matches[at] : this.chunks.get(Math.floor(at / CHUNK))?.lines.get(at + 1);
      if (!line && !this.matches) wanted.add(Math.floor(at / CHUNK));
      lines.push([line, this.matches ? line.line : at + 1]);
    }
    this.show(lines);
    for (const at of wanted) this.load(at);
  }

  // A row that is shown already stays as it is, with what is selected in it and the focus.
  show(lines) {
    const manner = [this.hasTimes, this.mark, Boolean(this.matches)].join(' ');
    const rows = new Map(lines.map(([line, number]) => [`${manner} ${number} ${line?.repeated} ${line?.cut_bytes} ${line?.text}`, [line, number]]));
    for (const [key, row] of this.rows) if (!rows.has(key)) { row.remove(); this.rows.delete(key); }
    let place = this.view.firstChild;
    for (const [key, [line, number]] of rows) {
      const known = this.rows.get(key);
      if (known) { place = known.nextSibling; continue; }
      const row = this.row(line, number);
      this.rows.set(key, row);
      this.view.insertBefore(row, place);
    }
  }

  row(line, number) {
    const label = this.matches
      ? el('button', { type: 'button', class: 'number jump', 'aria-label': `Show line ${number} among those around it`, on: { click: () => this.goTo(number) } }, String(number))
      : el('span', { class: 'number', 'aria-hidden': 'true' }, String(number));
    const time = this.hasTimes && el('time', {}, line?.time ? MOMENT.format(new Date(line.time)) : '');
    const text = el('span', { class: 'text' }, line ? nodes(line.text.replace(/\r$/, ''), this.mark) : '');
    if (line?.cut_bytes) text.append(el('em', {}, ` … ${size(line.cut_bytes)} more are in the download`));
    if (line?.repeated) text.append(` [${line.repeated} times]`);
    return el('div', { class: 'line', data: line?.stream === 'stderr' ? { stream: 'stderr' } : {} }, label, time, text);
  }

  scrolled() {
    const isAtEnd = this.pane.scrollTop + this.pane.clientHeight >= this.pane.scrollHeight - 2 * this.height;
    if (!this.matches && !isAtEnd && this.isFollowing && performance.now() - (this.moved ?? 0) > 150) this.setFollow(false);
    else if (!this.matches && isAtEnd && !this.isFollowing && !this.isOver) this.setFollow(true);
    if (!this.isDrawing) {
      this.isDrawing = true;
      requestAnimationFrame(() => { this.isDrawing = false; this.draw(); });
    }
  }

  toEnd() {
    this.moved = performance.now();
    this.space.style.height = `${this.pixels}px`;
    this.pane.scrollTop = this.pane.scrollHeight;
    this.draw();
  }

  setFollow(isOn) {
    this.isFollowing = isOn;
    this.follow.setAttribute('aria-pressed', String(isOn));
  }

  toggle(key) {
    if (key === 'follow') {
      this.setFollow(!this.isFollowing);
      if (this.isFollowing) { this.clearSearch(); this.toEnd(); }
    } else {
      this.hasTimes = !this.hasTimes;
      this.times.setAttribute('aria-pressed', String(this.hasTimes));
      this.draw();
    }
  }

  clearSearch() {
    if (!this.matches) return;
    this.find.value = '';
    this.stream.value = '';
    this.search();
  }

  // Looks for the text in the lines from this one on.
  matching(from) {
    return ask(path(this.job.job, 'output'), { query: this.query({ search: this.pattern, ignore_case: true, stream: this.stream.value, from_line: from, lines: MATCHES }), signal: this.abort.signal });
  }

  tellFound(isMore) {
    const count = this.matches.length;
    setText(this.found, `${isMore ? 'more than ' : ''}${count.toLocaleString()} ${count === 1 ? 'line' : 'lines'}`);
  }

  async search() {
    const text = this.find.value;
    this.pattern = text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    this.mark = text ? new RegExp(this.pattern, 'gi') : null;
    const asked = (this.asked = Symbol('search'));
    if (!text && !this.stream.value) {
      this.matches = null;
      setText(this.found, '');
      if (this.isFollowing) this.toEnd(); else this.draw();
      return;
    }
    try {
      const answer = await this.matching();
      if (this.asked !== asked) return;
      this.matches = answer.lines;
      // The last line may have been read when it was shorter.
      this.searched = Math.max(1, answer.total_lines);
      this.isMore = answer.more;
      this.tellFound(answer.more);
      this.pane.scrollTop = 0;
      this.draw();
    } catch (problem) { if (!this.abort.signal.aborted) failed(problem); }
  }

  // Adds what was printed since to what was found; one question at a time.
  async searchOn() {
    if (this.isSearching || this.isMore) return;
    this.isSearching = true;
    const asked = this.asked;
    try {
      const answer = await this.matching(this.searched);
      if (this.asked !== asked || !this.matches) return;
      this.matches = [...this.matches.filter((line) => line.line < this.searched), ...answer.lines];
      this.searched = Math.max(1, answer.total_lines);
      this.isMore = answer.more || this.matches.length > MATCHES;
      this.tellFound(this.isMore);
      this.draw();
    } catch { /* the next answer is soon enough */ } finally { this.isSearching = false; }
  }

  // Shows a line among those around it.
  goTo(number) {
    this.setFollow(false);
    this.asked = null;
    this.matches = null;
    this.find.value = '';
    this.stream.value = '';
    this.mark = null;
    setText(this.found, '');
    this.draw();
    const room = this.pixels - this.pane.clientHeight;
    this.moved = performance.now();
    this.pane.scrollTop = this.count * this.height <= MOST_PIXELS ? (number - 4) * this.height : ((number - 4) / this.count) * room;
    this.draw();
    // The button that led here is gone.
    this.pane.focus({ preventScroll: true });
  }

  key(event) {
    if (event.key === 'g') { this.setFollow(false); this.pane.scrollTop = 0; }
    else if (event.key === 'G') { this.setFollow(true); this.toEnd(); }
  }

  async copy() {
    if (getSelection()?.toString()) { copy(getSelection().toString()); return; }
    if (this.matches) { copy(this.matches.map((line) => line.text).join('\n')); return; }
    try {
      const answer = await ask(path(this.job.job, 'output'), { query: { tail: 10000, form: 'plain' } });
      copy(answer.lines.map((line) => line.text).join('\n'));
    } catch (problem) { failed(problem); }
  }
}
