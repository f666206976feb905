// Projects: what belongs together, what waits for what, and why.

import { ask } from '../api.js';
import { attempt } from '../actions.js';
import { Cards, none } from './cards.js';
import { el, mood, shape } from '../dom.js';

const SVG = 'http://www.w3.org/2000/svg';
const [WIDE, HIGH, GAP, ROW] = [168, 44, 56, 60];

// Why each job is as it is, as far as that was asked for.
const asked = new Map();

const status = ({ session, file }) => ask(`projects/${encodeURIComponent(session)}`).catch((problem) => ({ session, project: file, jobs: [], after: [], problem: problem.message }));

export class Projects extends Cards {
  constructor(root, access) {
    asked.clear();
    super(root, 'Projects', access, {
      read: async () => [await Promise.all((await ask('projects')).map(status)), [...asked]],
      draw: ([all]) => (all.length ? all.map((project) => this.card(project)) : [none('No project is up', 'In a directory with an outlive.toml or a Procfile:', 'outlive up')]),
    });
  }

  card({ session, project, jobs, after, problem }) {
    const down = () => attempt(() => ask(`projects/${encodeURIComponent(session)}/down`, { method: 'POST', body: {} }), `${project} is down`).then(() => this.refresh());
    return el('section', { class: 'card', 'aria-label': `Project ${project}` },
      el('div', { class: 'title' }, el('h2', {}, project), el('span', { class: 'found' }, session), el('span', { class: 'grow' }), this.canDrive && el('button', { type: 'button', class: 'danger', data: { key: `${session} down` }, on: { click: down } }, 'Bring down')),
      problem && el('p', {}, problem),
      after.length > 0 && el('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': `What waits for what in ${project}` }, graph(jobs, after)),
      el('ul', { class: 'members' }, jobs.map((job) => this.member(session, job, after))));
  }

  member(session, { name, state, waits_for: waits, changed, job, host }, after) {
    const key = `${session} ${name}`;
    const reasons = asked.get(key);
    const needs = after.filter((edge) => edge.job === name).map((edge) => `${edge.on} ${edge.milestone}`);
    return el('li', { data: { mood: job ? mood(job) : 'killed' } },
      el('span', { class: 'icon' }, shape(job ? mood(job) : 'killed')),
      job && !host ? el('a', { href: `#/job/${encodeURIComponent(job.job)}` }, name) : el('strong', {}, name), el('span', {}, state), host && el('span', { class: 'found' }, `on ${host}`),
      needs.length > 0 && el('span', { class: 'found' }, `after ${needs.join(', ')}`), waits && el('span', { class: 'found' }, waits), changed.length > 0 && el('span', { class: 'found' }, `changed in the file: ${changed.join(', ')}`),
      el('button', { type: 'button', class: 'quiet', data: { key: `${key} why` }, 'aria-expanded': String(Boolean(reasons)), 'aria-label': `Why is ${name} as it is`, on: { click: () => this.why(session, name, key) } }, 'Why?'),
      reasons && el('ul', { class: 'reasons' }, reasons.map(({ depth, text, output }) => el('li', { class: `depth${Math.min(depth, 4)}` }, text, output.length > 0 && el('pre', {}, output.join('\n'))))));
  }

  async why(session, name, key) {
    if (asked.delete(key)) { this.refresh(); return; }
    const reasons = await attempt(() => ask(`projects/${encodeURIComponent(session)}/why/${encodeURIComponent(name)}`));
    if (reasons) asked.set(key, reasons);
    this.refresh();
  }
}

// Columns by how much must come before; the same is in the list below as text, so a screen reader passes over it.
function graph(jobs, after) {
  const level = new Map();
  const depth = (name, above) => {
    if (level.has(name)) return level.get(name);
    if (above.includes(name)) return 0;
    const before = after.filter((edge) => edge.job === name).map((edge) => depth(edge.on, [...above, name]) + 1);
    level.set(name, Math.max(0, ...before));
    return level.get(name);
  };
  const rows = [];
  const places = new Map(jobs.map(({ name }) => {
    const column = depth(name, []);
    rows[column] = (rows[column] ?? 0) + 1;
    return [name, { x: column * (WIDE + GAP) + 2, y: (rows[column] - 1) * ROW + 2 }];
  }));
  const make = (tag, attributes, text) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    if (text) element.textContent = text;
    return element;
  };
  const [width, height] = [rows.length * (WIDE + GAP) - GAP + 4, Math.max(...rows) * ROW - (ROW - HIGH) + 4];
  const svg = make('svg', { class: 'graph', viewBox: `0 0 ${width} ${height}`, width, height, 'aria-hidden': 'true' });
  for (const { job, on } of after) {
    const [from, to] = [places.get(on), places.get(job)];
    if (!from || !to) continue;
    const [x, y, toX, toY] = [from.x + WIDE, from.y + HIGH / 2, to.x - 7, to.y + HIGH / 2];
    svg.append(make('path', { class: 'edge', d: `M${x} ${y}C${x + GAP / 2} ${y} ${toX - GAP / 2} ${toY} ${toX} ${toY}` }), make('path', { class: 'tip', d: `M${toX} ${toY - 4}l7 4l-7 4z` }));
  }
  for (const { name, job, state } of jobs) {
    const { x, y } = places.get(name);
    const node = make('g', { 'data-mood': job ? mood(job) : 'killed', transform: `translate(${x} ${y})` });
    const short = (text) => (text.length > 20 ? `${text.slice(0, 19)}…` : text);
    node.append(make('rect', { width: WIDE, height: HIGH, rx: 9 }), make('text', { x: 14, y: 18 }, short(name)), make('text', { x: 14, y: 35, class: 'small' }, short(state)));
    svg.append(node);
  }
  return svg;
}
