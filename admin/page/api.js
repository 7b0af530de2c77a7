// Questions to varco. Paths are relative to ui.path.

export const base = document.documentElement.dataset.base;

const timeout = 10000;

let token = '';

// setToken sets the write token. It is kept in memory only.
export function setToken(t) {
  token = t;
}

// Refused is an answer other than 2xx and 304.
export class Refused extends Error {
  constructor(status, text, body) {
    super(text);
    this.status = status;
    this.body = body;
  }
}

// get answers parsed JSON and the response. With an etag it answers null when nothing has changed.
export async function get(path, etag) {
  const headers = etag ? { 'If-None-Match': etag } : {};
  const res = await ask('GET', path, headers);
  if (res.status === 304) return { data: null, res };
  return { data: await res.json(), res };
}

// send writes a value, or nothing, and answers the response.
export function send(method, path, value) {
  const headers = {};
  if (value !== undefined) headers['Content-Type'] = 'application/json';
  if (token) headers.Authorization = 'Bearer ' + token;
  return ask(method, path, headers, value === undefined ? undefined : JSON.stringify(value));
}

async function ask(method, path, headers, body) {
  const res = await fetch(base + path, {
    method,
    headers,
    body,
    cache: 'no-store',
    credentials: 'same-origin',
    redirect: 'error',
    signal: AbortSignal.timeout(timeout),
  });
  if (res.ok || res.status === 304) return res;
  const text = await res.text();
  let json = null;
  if ((res.headers.get('Content-Type') || '').startsWith('application/json')) json = JSON.parse(text);
  throw new Refused(res.status, json && json.error ? json.error : text.trim() || `status ${res.status}`, json);
}
