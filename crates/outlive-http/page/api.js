// Asking the server. A failure is thrown with its words, code and hint.

export class Problem extends Error {
  constructor(problem, status) {
    // The detail ends with the hint, which is shown apart.
    super(problem.detail?.replace(problem.hint ? `; ${problem.hint}` : '', '') ?? `the server answered ${status}`);
    this.code = problem.code;
    this.hint = problem.hint;
    this.status = status;
  }
}

export async function ask(path, { method = 'GET', body, query = {}, signal } = {}) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined && value !== '' && value !== null));
  const url = `v1/${path}${asked.size ? `?${asked}` : ''}`;
  const headers = body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await fetch(url, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await response.text();
  let answer = {};
  try { answer = text ? JSON.parse(text) : {}; } catch { /* no JSON: the status says enough */ }
  if (!response.ok) {
    if (response.status === 401) window.dispatchEvent(new CustomEvent('signed-out'));
    throw new Problem(answer, response.status);
  }
  return answer;
}

export const job = (id, verb = '') => `jobs/${encodeURIComponent(id)}${verb ? `/${verb}` : ''}`;
export const act = (id, verb, body) => ask(job(id, verb), { method: 'POST', body });

// One stream for everything. It says whether what is shown is current.
export function follow({ onEvent, onState }) {
  let source;
  let last;
  let retry;
  const open = () => {
    source = new EventSource(`v1/events${last ? `?after=${encodeURIComponent(last)}` : ''}`);
    const remember = (event) => { if (event.lastEventId) last = event.lastEventId; };
    source.addEventListener('start', (event) => { remember(event); onState('live'); });
    source.addEventListener('event', (event) => { remember(event); onEvent(JSON.parse(event.data)); });
    source.addEventListener('gap', (event) => { remember(event); onEvent(null); });
    source.onerror = () => {
      onState('stale');
      // A browser gives up on a server that answers otherwise, or is gone for long.
      if (source.readyState === EventSource.CLOSED) {
        clearTimeout(retry);
        retry = setTimeout(open, 1500);
      }
    };
  };
  open();
}
