// A job's terminal as real text: rows of styled runs that the server makes; keys go back by their names.

import { job as path } from '../api.js';
import { paint } from '../ansi.js';
import { failed } from '../actions.js';
import { el, fill, setText } from '../dom.js';
import { boxes, columns } from '../width.js';

const NAMES = { ArrowUp: 'Up', ArrowDown: 'Down', ArrowLeft: 'Left', ArrowRight: 'Right', Enter: 'Enter', Backspace: 'Backspace', Escape: 'Escape', Tab: 'Tab', Home: 'Home', End: 'End', PageUp: 'PageUp', PageDown: 'PageDown', Delete: 'Delete', Insert: 'Insert', ' ': 'Space' };

const color = (value) => (value === undefined || value === 'default' ? undefined : value.palette ?? (value.rgb ? `rgb(${value.rgb.join(' ')})` : undefined));

export class Terminal {
  constructor(root, job, { canDrive }) {
    this.canDrive = canDrive;
    this.job = job;
    this.rows = [];
    this.screen = el('div', { class: 'screen', role: 'img', 'aria-label': 'Screen of the terminal' });
    this.cursor = el('span', { class: 'cursor', 'aria-hidden': 'true' });
    this.input = el('textarea', { class: 'typed', rows: '1', autocapitalize: 'off', autocomplete: 'off', autocorrect: 'off', spellcheck: 'false', 'aria-label': 'Type into the terminal. Shift and Tab leave it.', readOnly: !canDrive, on: {
      keydown: (event) => this.key(event),
      input: (event) => this.text(event),
      compositionend: () => this.composed(),
      paste: (event) => { event.preventDefault(); this.send({ paste: event.clipboardData.getData('text') }); },
      focus: () => this.frame.classList.add('focused'), blur: () => this.frame.classList.remove('focused') } });
    const mouse = (action) => (event) => this.mouse(event, action);
    this.frame = el('div', { class: 'terminal', on: { mousedown: mouse('press'), mousemove: mouse('move'), wheel: mouse('wheel'),
      mouseup: (event) => { this.mouse(event, 'release'); if (!getSelection()?.toString()) this.input.focus({ preventScroll: true }); } } }, this.screen, this.cursor, this.input);
    this.title = el('span', { class: 'title' });
    this.state = el('span', { class: 'found', role: 'status' }, 'connecting');
    this.leading = canDrive && el('button', { type: 'button', 'aria-pressed': 'false', on: { click: () => this.lead(!this.isLead) }, title: 'The terminal has the size of this window whenever it was used here last' }, 'Lead');
    this.resized = () => { clearTimeout(this.sizing); this.sizing = setTimeout(() => this.offer(), 150); };
    this.plain = el('pre', { class: 'unseen', role: 'region', 'aria-label': 'Text of the screen', tabindex: '-1' });
    fill(root, el('div', { class: 'tools' }, this.title, this.state, el('span', { class: 'grow' }),
      canDrive && el('button', { type: 'button', on: { click: () => this.fit() }, title: 'Give the terminal the size of this window' }, 'Fit to window'),
      this.leading,
      canDrive && el('button', { type: 'button', on: { click: () => this.send({ keys: 'C-c' }) } }, 'Ctrl-C')),
    this.frame, this.plain, el('p', { class: 'foot' }, canDrive ? 'Click to type. Shift+Tab leaves the terminal, Ctrl+Shift+C copies what is selected. A program that asks for the mouse gets it; with Shift you select.' : 'You may look, not type.'));
    this.connect();
  }

  close() {
    this.isClosed = true;
    removeEventListener('resize', this.resized);
    clearTimeout(this.sizing);
    clearTimeout(this.retry);
    this.socket?.close();
  }

  connect() {
    const url = new URL(`v1/${path(this.job.job, 'terminal')}`, location.href.split('#')[0]);
    url.protocol = url.protocol.replace('http', 'ws');
    this.socket = new WebSocket(url);
    this.socket.onmessage = (event) => this.took(JSON.parse(event.data));
    this.socket.onopen = () => { setText(this.state, ''); this.offer(); };
    this.socket.onclose = (event) => {
      if (this.isClosed || event.reason === 'ended' || this.hasEnded) { if (!this.isClosed) setText(this.state, 'ended'); return; }
      setText(this.state, 'reconnecting');
      this.retry = setTimeout(() => this.connect(), 1000);
    };
  }

  took(update) {
    if (update.error) { failed({ message: update.error.detail, hint: update.error.hint }); return; }
    this.hasEnded = update.ended;
    while (this.rows.length > update.rows) { this.rows.pop(); this.screen.lastChild.remove(); }
    while (this.rows.length < update.rows) { this.rows.push(''); this.screen.append(el('div', { class: 'cells' })); }
    for (const [number, runs] of update.changed) {
      const row = this.screen.children[number];
      if (!row) continue;
      this.rows[number] = runs.map((run) => run.text).join('');
      row.replaceChildren(...runs.flatMap(cells));
    }
    this.columns = update.columns;
    this.reports = update.modes?.mouse ?? null;
    this.frame.classList.toggle('mouse', this.reports !== null);
    this.screen.style.width = `${update.columns}ch`;
    this.screen.setAttribute('aria-label', 'Screen of the terminal');
    this.place(update.cursor);
    if (this.isLead) setText(this.state, this.own === `${update.columns}x${update.rows}` ? 'this window leads' : 'another window leads');
    setText(this.title, update.title ?? `${update.columns}×${update.rows}`);
    // A screen reader reads the text where it comes to rest, not each stroke.
    clearTimeout(this.resting);
    this.resting = setTimeout(() => setText(this.plain, this.rows.join('\n').trimEnd()), 300);
  }

  place({ row, column, visible, shape }) {
    this.cursor.hidden = !visible || this.hasEnded;
    this.cursor.dataset.shape = shape;
    const top = this.screen.children[row - 1]?.offsetTop ?? 0;
    this.cursor.style.top = this.input.style.top = `${top}px`;
    this.cursor.style.left = this.input.style.left = `calc(var(--pad) + ${column - 1}ch)`;
  }

  send(message) {
    if (!this.canDrive || this.socket?.readyState !== WebSocket.OPEN) return;
    this.socket.send(JSON.stringify(message));
  }

  // A program that asks for the mouse gets it; with Shift it stays the browser's, to select text.
  mouse(event, action) {
    if (this.reports === null || this.reports === undefined || event.shiftKey || !this.canDrive) return;
    const box = this.screen.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / (box.height / this.rows.length)) + 1;
    const column = Math.floor((event.clientX - box.left) / (box.width / this.columns)) + 1;
    if (row < 1 || row > this.rows.length || column < 1 || column > this.columns) return;
    event.preventDefault();
    const held = event.buttons & 1 ? 'left' : event.buttons & 4 ? 'middle' : event.buttons & 2 ? 'right' : 'none';
    const button = action === 'wheel' ? (event.deltaY < 0 ? 'wheel_up' : 'wheel_down') : action === 'move' ? held : ['left', 'middle', 'right'][event.button] ?? 'none';
    const place = `${row} ${column} ${button}`;
    if (action === 'move' && place === this.pointed) return;
    this.pointed = place;
    this.send({ mouse: { row, column, button, action: action === 'wheel' ? 'press' : action } });
  }

  key(event) {
    if (event.isComposing || event.keyCode === 229 || !this.canDrive) return;
    // Shift and Tab always lead out, and the browser keeps its own.
    if ((event.key === 'Tab' && event.shiftKey) || event.metaKey || (event.ctrlKey && event.shiftKey)) return;
    if (event.ctrlKey && event.key === 'v') return;
    event.stopPropagation();
    const isNamed = event.key in NAMES && event.key !== ' ';
    const isFunction = /^F\d+$/.test(event.key);
    if (!isNamed && !isFunction && !event.ctrlKey && !event.altKey) return;
    if (event.key.length > 1 && !isNamed && !isFunction) return;
    event.preventDefault();
    const modifiers = `${event.ctrlKey ? 'C-' : ''}${event.altKey ? 'M-' : ''}${event.shiftKey && event.key.length > 1 ? 'S-' : ''}`;
    this.send({ keys: modifiers + (NAMES[event.key] ?? event.key) });
  }

  text(event) {
    if (event.isComposing) return;
    this.composed();
  }

  composed() {
    const text = this.input.value;
    this.input.value = '';
    if (text) this.send({ text: text.replace(/\n/g, '\r') });
  }

  // What fits into this window, as `120x40`.
  room() {
    const cell = this.screen.getBoundingClientRect().width / (this.columns || 80);
    const row = this.screen.firstChild?.getBoundingClientRect().height || 18;
    const style = getComputedStyle(this.frame);
    const width = this.frame.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const height = innerHeight - this.frame.getBoundingClientRect().top - scrollY - 80;
    return `${Math.max(20, Math.floor(width / cell))}x${Math.max(6, Math.floor(height / row))}`;
  }

  fit() {
    this.send({ size: this.room() });
    this.input.focus({ preventScroll: true });
  }

  // While it leads, this window has a say in the size as any window of `outlive attach` has: the one that was used last counts.
  lead(isOn) {
    this.isLead = isOn;
    this.leading.setAttribute('aria-pressed', String(isOn));
    if (isOn) {
      addEventListener('resize', this.resized);
      this.offer();
      this.input.focus({ preventScroll: true });
    } else {
      removeEventListener('resize', this.resized);
      setText(this.state, '');
      this.send({ lead: null });
    }
  }

  offer() {
    if (!this.isLead) return;
    this.own = this.room();
    this.send({ lead: this.own });
  }
}

// The spans of a styled run, each as wide as it is on the screen.
export function cells(run) {
  const style = { bold: run.bold, dim: run.dim, italic: run.italic, inverse: run.inverse, hidden: run.hidden, strike: run.strikeout, underline: run.underline !== undefined, color: color(run.foreground), back: color(run.background) };
  return boxes(run.text).map((box) => {
    const span = paint(el('span', {}, box.text), style);
    if (!box.isPlain) {
      span.classList.add('box');
      span.style.width = `${box.columns}ch`;
    }
    return span;
  });
}

export { columns };
