// Which view is shown, what keys do, and whether what is shown is current.

import { ask, follow } from './api.js';
import { help, startJob, toast } from './actions.js';
import { el, setText, words } from './dom.js';
import { Hosts } from './views/hosts.js';
import { Job } from './views/job.js';
import { List } from './views/list.js';
import { Projects } from './views/projects.js';
import { Queues } from './views/queues.js';
import { Schedules } from './views/schedules.js';

const main = document.getElementById('main');
const access = { canDrive: false };
const views = new Map([['projects', ['Projects', Projects]], ['queues', ['Queues', Queues]], ['schedules', ['Schedules', Schedules]], ['machines', ['Machines', Hosts]]]);
let view;

function route() {
  if (location.hash.startsWith('#t=')) { location.reload(); return; }
  const [, kind, id] = location.hash.split('/');
  view?.close();
  scrollTo(0, 0);
  if (kind === 'job' && id) {
    view = new Job(main, decodeURIComponent(id), access);
  } else {
    const [name, View] = views.get(kind) ?? ['', List];
    document.title = name ? `${name} · outlive` : 'outlive';
    view = new View(main, access);
  }
  main.dataset.view = view instanceof Job ? 'job' : view instanceof List ? 'list' : kind;
  for (const link of document.querySelectorAll('.bar nav a')) {
    const isOn = link.getAttribute('href') === (view instanceof List ? '#/' : `#/${kind}`);
    if (isOn) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
  }
}

function state(now) {
  const link = document.getElementById('link');
  if (link.dataset.state === now) return;
  const was = link.dataset.state;
  link.dataset.state = now;
  document.body.classList.toggle('stale', now === 'stale');
  setText(document.getElementById('link-text'), { live: 'live', stale: 'not current: reconnecting', waiting: 'connecting' }[now]);
  if (now === 'live' && was === 'stale') view?.changed(null);
}

function happened(event) {
  view?.changed(event);
  if (!event || !['exited', 'awaits_input', 'ready', 'lost'].includes(event.event)) return;
  const log = document.getElementById('live');
  log.append(el('p', {}, `${event.job} ${event.event === 'exited' ? words(event.status ?? 'ended') : words(event.event)}`));
  while (log.childElementCount > 20) log.firstChild.remove();
}

function signedOut() {
  view?.close();
  view = null;
  main.replaceChildren(el('div', { class: 'empty' }, el('h1', {}, 'Sign in'), el('p', {}, 'Get a link that signs this browser in, once:'), el('pre', {}, 'outlive open'),
    el('p', {}, 'Nobody else on this machine can see your jobs without one.')));
  document.getElementById('start').hidden = true;
}

function keys(event) {
  const isTyping = event.target.closest('input, textarea, select, dialog');
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'Escape' && !event.target.closest('dialog, textarea')) {
    if (isTyping) event.target.blur();
    else if (!(view instanceof List)) location.hash = '#/';
    return;
  }
  if (isTyping) return;
  const act = {
    '/': () => main.querySelector('input[type=search]')?.focus(),
    '?': help,
    n: () => access.canDrive && startJob(),
    j: () => view?.move?.(1),
    k: () => view?.move?.(-1),
    f: () => view?.view?.toggle?.('follow'),
  }[event.key];
  if (act) { event.preventDefault(); act(); }
}

async function begin() {
  const secret = /^#t=(.+)$/.exec(location.hash)?.[1];
  if (secret) {
    // Out of the address at once: it is of no more use to anybody.
    history.replaceState(null, '', `${location.pathname}#/`);
    try {
      await ask('login', { method: 'POST', body: { link: secret } });
    } catch (problem) {
      toast(problem.message, { kind: 'failed', hint: problem.hint });
    }
  }
  window.addEventListener('signed-out', signedOut);
  document.getElementById('start').addEventListener('click', startJob);
  document.getElementById('help').addEventListener('click', help);
  document.addEventListener('keydown', keys);
  try {
    const { scope } = await ask('login');
    access.canDrive = scope !== 'view';
    document.getElementById('start').hidden = !access.canDrive;
  } catch (problem) {
    if (problem.status === 401) { state('waiting'); setText(document.getElementById('link-text'), 'signed out'); return; }
  }
  window.addEventListener('hashchange', route);
  route();
  follow({ onEvent: happened, onState: state });
}

begin();
