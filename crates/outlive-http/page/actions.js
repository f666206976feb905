// What can be done: asking, telling, undoing.

import { act, ask, job as path } from './api.js';
import { el } from './dom.js';

// So long something can be undone.
const UNDO = 6000;

export function toast(text, { kind = 'done', hint, action, onAction, stay = 6000 } = {}) {
  const close = () => item.remove();
  const item = el('div', { class: 'toast', data: { kind } }, el('p', {}, text, hint && el('small', {}, hint)),
    action && el('button', { type: 'button', on: { click: () => { onAction(); close(); } } }, action),
    el('button', { type: 'button', class: 'quiet', 'aria-label': 'Close this message', on: { click: close } }, '×'));
  document.getElementById('toasts').append(item);
  const timer = setTimeout(close, kind === 'failed' ? 12000 : stay);
  return { close: () => { clearTimeout(timer); close(); } };
}

export const failed = (problem) => toast(problem.message, { kind: 'failed', hint: problem.hint });

export async function attempt(does, done) {
  try {
    const answer = await does();
    if (done) toast(typeof done === 'function' ? done(answer) : done);
    return answer;
  } catch (problem) {
    failed(problem);
    return null;
  }
}

// Opens a dialog; resolves with the form's data, or null.
export function dialog(title, content, { confirm = 'OK', danger = false, cancel = 'Cancel' } = {}) {
  return new Promise((resolve) => {
    const form = el('form', { method: 'dialog' }, el('h2', { id: 'dialog-title' }, title), content,
      el('div', { class: 'buttons' }, cancel && el('button', { value: 'cancel', formnovalidate: true, class: 'quiet' }, cancel),
        el('button', { value: 'ok', class: danger ? 'danger' : 'primary' }, confirm)));
    const box = el('dialog', { 'aria-labelledby': 'dialog-title' }, form);
    box.addEventListener('click', (event) => { if (event.target === box) box.close('cancel'); });
    box.addEventListener('close', () => {
      const data = box.returnValue === 'ok' ? new FormData(form) : null;
      box.remove();
      resolve(data);
    });
    document.body.append(box);
    box.showModal();
    // Enter in a field means the main button, not the first.
    form.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && event.target.matches('input')) { event.preventDefault(); form.requestSubmit(form.querySelector('[value=ok]')); }
    });
    (form.querySelector('[autofocus]') ?? form.querySelector('[value=ok]')).focus();
  });
}

const field = (label, input, hint) => el('label', { class: 'field' }, el('span', {}, label), input, hint && el('small', {}, hint));

export async function startJob() {
  const data = await dialog('Start a job', [
    field('Command', el('input', { name: 'command', required: true, autofocus: true, autocomplete: 'off', spellcheck: 'false', placeholder: 'npm run dev' }), 'A line for the shell. It goes on when this page is closed.'),
    el('div', { class: 'pair' },
      field('Name', el('input', { name: 'name', autocomplete: 'off', maxlength: '100' })),
      field('Session', el('input', { name: 'session', autocomplete: 'off', placeholder: 'default' }))),
    field('Directory', el('input', { name: 'cwd', autocomplete: 'off', spellcheck: 'false', placeholder: 'your home' })),
    el('div', { class: 'pair' },
      field('End it after', el('input', { name: 'timeout', autocomplete: 'off', placeholder: 'never; such as 10m' })),
      el('label', { class: 'check' }, el('input', { type: 'checkbox', name: 'pty' }), el('span', {}, 'In a terminal of its own'))),
  ], { confirm: 'Start' });
  if (!data) return null;
  const body = Object.fromEntries([...data].filter(([name, value]) => value !== '' && name !== 'pty'));
  if (data.get('pty')) body.pty = true; else body.stdin = 'open';
  const started = await attempt(() => ask('jobs', { method: 'POST', body }), (answer) => `${answer.job} runs`);
  if (started) location.hash = `#/job/${encodeURIComponent(started.job)}`;
  return started;
}

export async function kill(job) {
  const choice = el('select', { name: 'how' }, el('option', { value: '' }, 'Ask it to end, then force it'), el('option', { value: 'force' }, 'Force it at once (KILL)'), el('option', { value: 'INT' }, 'Interrupt it, as Ctrl-C does (INT)'), el('option', { value: 'HUP' }, 'Hang up (HUP)'));
  const data = await dialog(`End ${job.name ?? job.job}?`, [el('p', {}, 'The command and everything that it started. Its output stays.'), field('How', choice)], { confirm: 'End it', danger: true });
  if (!data) return;
  const how = data.get('how');
  const body = how === 'force' ? { force: true } : how ? { signal: how } : {};
  await attempt(() => act(job.job, 'kill', body), (answer) => answer.already_ended ? `${job.job} had ended already` : how && how !== 'force' ? `${how} was sent` : answer.survivors.length ? `${answer.survivors.length} processes of ${job.job} are left` : `${job.job} has ended`);
}

// Jobs that are about to be removed: no list shows them.
export const leaving = new Set();

// Removing waits a moment, so that it can be undone.
export function remove(job) {
  leaving.add(job.job);
  const later = setTimeout(async () => {
    await attempt(() => ask(path(job.job), { method: 'DELETE' }));
    leaving.delete(job.job);
  }, UNDO);
  const undo = () => {
    clearTimeout(later);
    leaving.delete(job.job);
    location.hash = `#/job/${encodeURIComponent(job.job)}`;
  };
  toast(`${job.name ?? job.job} is removed with its output`, { action: 'Undo', onAction: undo, stay: UNDO });
  location.hash = '#/';
}

export async function rename(job) {
  const data = await dialog('Rename', [field('Name', el('input', { name: 'name', required: true, autofocus: true, maxlength: '100', value: job.name ?? '' }))], { confirm: 'Rename' });
  if (data) await attempt(() => act(job.job, 'rename', { name: data.get('name') }), 'Renamed');
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast('Copied');
  } catch {
    toast('The browser does not let this page copy', { kind: 'failed', hint: 'Select the text and copy it yourself.' });
  }
}

export const help = () => dialog('Keys', [el('dl', { class: 'keys' }, [
  ['/', 'filter jobs, or find in a log'], ['j k', 'next and previous job'], ['Enter', 'open the job'], ['Esc', 'back to all jobs'], ['n', 'start a job'],
  ['f', 'follow a log'], ['g G', 'first and last line of a log'], ['Shift+Tab', 'leave a terminal'], ['?', 'this help'],
].flatMap(([key, text]) => [el('dt', {}, key.split(' ').map((part) => el('kbd', {}, part))), el('dd', {}, text)]))], { confirm: 'Close', cancel: null });
