// Making elements. Text is always set as text, never as HTML: what a job prints is not trusted.

export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'class') element.className = value;
    else if (name === 'on') for (const [type, handler] of Object.entries(value)) element.addEventListener(type, handler);
    else if (name === 'data') Object.assign(element.dataset, value);
    else if (name in element && typeof value !== 'string') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Replaces what is in an element; what is not there is left out.
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Lets a question be asked once at a time: what comes meanwhile is one more, after it. Many events at once are not many questions.
export function oneAtATime(ask) {
  let isAsking = false;
  let isStale = false;
  return async () => {
    if (isAsking) { isStale = true; return; }
    isAsking = true;
    try {
      do { isStale = false; await ask(); } while (isStale);
    } finally { isAsking = false; }
  };
}

// --- words for people

export const words = (status) => status.replaceAll('_', ' ');

export function size(bytes) {
  if (bytes === null || bytes === undefined) return '';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${bytes < 10 && unit > 0 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return '';
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function ago(time) {
  if (!time) return '';
  const seconds = Math.round((Date.now() - Date.parse(time)) / 1000);
  if (seconds < 5) return 'just now';
  return `${duration(seconds * 1000).split(' ').slice(0, 2).join(' ')} ago`;
}

// How far off a time to come is; whole minutes, so that it does not change each second.
export function until(time) {
  const left = Date.parse(time) - Date.now();
  return left < 60000 ? 'within a minute' : `in ${duration(left - (left % 60000)).replace(' 0 s', '')}`;
}

export function clock(time) {
  return time ? new Date(time).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' }) : '';
}

export const isLive = (job) => ['queued', 'starting', 'running'].includes(job.status) || job.lingering || job.orphaned;

// How a job is doing: a word, and a shape that does not depend on colour.
export function mood(job) {
  if (job.awaits && job.awaits.kind !== 'keys') return 'asks';
  if (job.paused) return 'paused';
  return { queued: 'paused', starting: 'running', running: 'running', completed: 'completed', failed: 'failed', timed_out: 'failed', lost: 'lost', killed: 'killed' }[job.status] ?? 'lost';
}

export function statusText(job) {
  const text = words(job.status);
  if (job.awaits?.kind === 'password') return `${text}, asks for a password`;
  if (job.awaits && job.awaits.kind !== 'keys') return `${text}, asks`;
  if (job.paused) return `${text}, paused`;
  if (job.lingering) return `${text}, lingering`;
  if (job.orphaned) return `${text}, orphaned`;
  if (job.status === 'failed' && job.exit_code !== null) return `failed: ${job.exit_code}`;
  if (job.status === 'failed' && job.signal) return `failed: ${job.signal}`;
  if (job.status === 'running' && job.ready === true) return 'running, ready';
  return text;
}

const SHAPES = {
  running: 'M3 8a5 5 0 1 0 10 0a5 5 0 1 0 -10 0',
  completed: 'M3 8.500l3.300 3.300L13 5',
  failed: 'M4 4l8 8M12 4l-8 8',
  killed: 'M4 4h8v8h-8z',
  lost: 'M5.500 6a2.500 2.500 0 1 1 3.500 2.300c-.7.3-1 .8-1 1.500M8 12.500v.2',
  paused: 'M5.500 4v8M10.500 4v8',
  asks: 'M3 4h10v7h-5l-3 2.500v-2.500h-2z',
};

export function shape(kind) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', SHAPES[kind] ?? SHAPES.lost);
  svg.append(path);
  return svg;
}

export function sparkline(values, label) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 60 18');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('class', 'spark');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', label);
  const most = Math.max(1, ...values);
  const step = 60 / Math.max(1, values.length - 1);
  const points = values.map((value, at) => `${(at * step).toFixed(1)},${(17 - (value / most) * 15).toFixed(1)}`);
  const area = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  area.setAttribute('d', `M0,18L${points.join('L')}L60,18Z`);
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'polyline');
  line.setAttribute('points', points.join(' '));
  svg.append(area, line);
  return svg;
}
