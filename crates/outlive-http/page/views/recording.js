// The screen of a job at any time: a slider over what was recorded. The server derives each screen from the log.

import { ask, job as path } from '../api.js';
import { duration, el, fill, setText } from '../dom.js';
import { cells } from './terminal.js';

const STEPS = 1000;

export class Recording {
  constructor(root, job) {
    this.job = job;
    this.place = STEPS;
    this.slider = el('input', { type: 'range', min: '0', max: String(STEPS), value: String(STEPS), 'aria-label': 'Time in the recording', on: { input: () => { this.stop(); this.go(Number(this.slider.value)); } } });
    this.play = el('button', { type: 'button', 'aria-pressed': 'false', on: { click: () => (this.timer ? this.stop() : this.start()) } }, 'Play');
    this.time = el('output', { class: 'found' });
    this.screen = el('div', { class: 'screen', role: 'img', 'aria-label': 'Screen at this time' });
    this.plain = el('pre', { class: 'unseen', role: 'region', 'aria-label': 'Text of the screen at this time', tabindex: '-1' });
    fill(root, el('div', { class: 'tools reel' }, this.play, this.slider, this.time,
      el('a', { class: 'button', href: `v1/${path(job.job, 'export')}?form=cast`, download: `${job.job}.cast`, title: 'For asciinema and its players' }, 'Download')), el('div', { class: 'terminal still', tabindex: '0', role: 'region', 'aria-label': 'Screen' }, this.screen), this.plain,
      el('p', { class: 'foot' }, 'What the terminal showed, from the start of the job to its end or to now.'));
    this.fill(job);
    this.go(STEPS);
  }

  fill(job) {
    this.job = job;
    this.from = Date.parse(job.started_at);
    this.to = job.ended_at ? Date.parse(job.ended_at) : Date.now();
    this.tell();
  }

  at() {
    return this.from + ((this.to - this.from) * this.place) / STEPS;
  }

  tell() {
    const text = `${duration(this.at() - this.from)} of ${duration(this.to - this.from)}`;
    setText(this.time, text);
    this.slider.setAttribute('aria-valuetext', text);
  }

  // One request at a time: while one is under way, only the newest place is remembered.
  async go(place) {
    this.place = place;
    this.slider.value = String(place);
    this.tell();
    if (this.isAsking) { this.isStale = true; return; }
    this.isAsking = true;
    do {
      this.isStale = false;
      try {
        const at = this.place === STEPS ? undefined : new Date(this.at()).toISOString();
        const shown = await ask(path(this.job.job, 'screen'), { query: { styled: true, at } });
        if (this.isClosed) return;
        this.draw(shown);
      } catch (problem) {
        if (!this.isClosed) fill(this.screen, el('p', {}, problem.message));
      }
    } while (this.isStale && !this.isClosed);
    this.isAsking = false;
  }

  draw({ styled_rows: rows, rows: texts, size }) {
    const columns = size.split('x')[0];
    this.screen.style.width = `${columns}ch`;
    fill(this.screen, rows.map((runs) => el('div', { class: 'cells' }, runs.flatMap(cells))));
    setText(this.plain, texts.join('\n').trimEnd());
  }

  // Plays it within a minute, or as fast as it was.
  start() {
    const length = Math.min(60_000, Math.max(1000, this.to - this.from));
    const begun = Date.now() - (this.place === STEPS ? 0 : (this.place / STEPS) * length);
    this.play.setAttribute('aria-pressed', 'true');
    setText(this.play, 'Stop');
    this.timer = setInterval(() => {
      const place = Math.min(STEPS, Math.round(((Date.now() - begun) / length) * STEPS));
      this.go(place);
      if (place === STEPS) this.stop();
    }, 200);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = undefined;
    this.play.setAttribute('aria-pressed', 'false');
    setText(this.play, 'Play');
  }

  close() {
    this.isClosed = true;
    clearInterval(this.timer);
  }
}
