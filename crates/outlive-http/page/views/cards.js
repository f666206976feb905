// A view of cards, asked for again and again, and drawn anew only when something in it has changed.

import { el, fill, oneAtATime } from '../dom.js';

// What changes without a need to draw.
const PASSING = ['runtime_ms', 'starts_in_ms', 'usage', 'output'];

export class Cards {
  // `read` asks for all that is shown, each `every` milliseconds, `draw` makes the cards of it.
  constructor(root, title, { canDrive }, { read, draw, every = 3000 }) {
    Object.assign(this, { canDrive, read, draw });
    this.refresh = oneAtATime(() => this.look());
    this.items = el('div', { class: 'cards' });
    fill(root, el('h1', {}, title), this.items);
    this.refresh();
    this.timer = setInterval(() => { if (!document.hidden) this.refresh(); }, every);
  }

  close() {
    this.isClosed = true;
    clearInterval(this.timer);
  }

  changed() {
    this.refresh();
  }

  async look() {
    if (this.isClosed) return;
    let all;
    try { all = await this.read(); } catch { return; }
    const text = JSON.stringify(all, (key, value) => (PASSING.includes(key) ? undefined : value));
    if (this.isClosed || this.text === text) return;
    // What a user is typing is left alone; it is drawn when that is done.
    const field = document.activeElement;
    if (this.items.contains(field) && field.matches('input') && field.value !== field.defaultValue) return;
    this.text = text;
    // What has the focus is drawn anew: it gets it back, and a field is selected as the Tab key selects it, so that what is typed next
    // takes the place of what is there and does not stand beside it.
    const key = document.activeElement?.dataset.key;
    fill(this.items, this.draw(all));
    const focused = key && this.items.querySelector(`[data-key="${CSS.escape(key)}"]`);
    focused?.focus();
    if (focused?.matches('input')) focused.select();
  }
}

// What is shown where there is no card.
export const none = (title, text, command) => el('div', { class: 'empty' }, el('h2', {}, title), el('p', {}, text), el('pre', {}, command));
