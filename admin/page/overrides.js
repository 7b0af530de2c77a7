// The overrides editor: a text is checked while it is written, saved only when every line is good, and never over
// somebody else's change.

import { base, get, Refused, send, setToken } from './api.js';
import { $, ask, debounce, make, setText } from './dom.js';
import { plural } from './format.js';
import { diff, merge } from './merge.js';

const state = {
  key: null,
  stored: { value: '', version: '0' }, // as varco has it
  problems: [],
  checked: true, // whether problems belong to the text
  theirs: null, // what was saved meanwhile
  info: null,
  watch: 0,
};

const area = $('overrides');

export const overrides = {
  navigate: null, // set by app.js

  open(key, info) {
    state.info = info;
    $('token').hidden = !info.token;
    drawOptions(info.options || []);
    loadKeys();
    if (key !== state.key) load(key);
    else area.disabled = !info.overrides;
    clearInterval(state.watch);
    state.watch = setInterval(look, 3000);
  },

  close() {
    clearInterval(state.watch);
  },

  query: () => 'limit=0',
  update() {},
  dirty: () => state.key !== null && area.value !== state.stored.value,

  async leave() {
    if (!overrides.dirty()) return true;
    if (!(await ask('The text has changes that are not saved. Leave without saving?', 'Leave'))) return false;
    setValue(state.stored.value);
    return true;
  },
};

const name = (key) => (key === '' ? 'default' : key.replace(/^\//, ''));
const encode = (key) => key.split('/').map(encodeURIComponent).join('/');

// ---- keys

let keys = [''];

async function loadKeys() {
  try {
    keys = [...new Set(['', ...((await get('/api/paths')).data || [])])];
  } catch (err) {
    say(problem(err), true);
  }
  drawKeys();
}

function drawKeys() {
  const all = state.key === null || keys.includes(state.key) ? keys : [...keys, state.key];
  $('keys').replaceChildren(...all.map((key) => make('li', {},
    make('a', { href: base + '/manual' + encode(key), 'aria-current': key === state.key ? 'true' : undefined }, name(key)))));
}

$('new-key').addEventListener('submit', (e) => {
  e.preventDefault();
  const text = $('new-key-name').value.trim().replace(/^\/+|\/+$/g, '');
  if (!text) return;
  $('new-key-name').value = '';
  overrides.navigate(base + '/manual' + encode('/' + text));
});

// ---- loading and saving

async function load(key) {
  state.key = key;
  setText($('key-name'), name(key));
  drawKeys();
  setValue('');
  area.disabled = true;
  say('loading');
  try {
    state.stored = (await get('/api/manual' + encode(key))).data;
    setValue(state.stored.value);
    area.disabled = !state.info.overrides;
    say(state.info.overrides ? describe() : 'this registry backend keeps no overrides');
  } catch (err) {
    state.stored = { value: '', version: '0' };
    say(problem(err), true);
  }
  area.readOnly = false;
  state.problems = [];
  state.checked = true;
  state.theirs = null;
  drawConflict();
  draw();
  if (area.value) check();
}

function describe() {
  return state.stored.version === '0' || state.stored.value === '' ? 'empty' : '';
}

// look notices when somebody else saves the key that is shown.
async function look() {
  if (document.hidden || state.key === null || area.disabled || saving) return;
  const key = state.key;
  try {
    const { data } = await get('/api/manual' + encode(key));
    if (key !== state.key || saving || same(data, state.stored) || (state.theirs && same(data, state.theirs))) return;
    if (!overrides.dirty()) {
      state.stored = data;
      setValue(data.value);
      say('reloaded: it was changed by somebody else');
      check();
    } else {
      state.theirs = data;
      drawConflict();
    }
  } catch {
    // Saving will say what is wrong; the banner says when varco is gone.
  }
}

const same = (a, b) => a.value === b.value && (a.version === b.version || a.value === '');

let saving = false;

async function save() {
  if (saving || $('save').disabled) return;
  saving = true;
  draw();
  say('saving');
  const value = area.value;
  try {
    await send('PUT', '/api/manual' + encode(state.key), { value, version: state.stored.version });
    state.stored = (await get('/api/manual' + encode(state.key))).data;
    state.theirs = null;
    say('saved');
    loadKeys();
  } catch (err) {
    await refused(err, 'not saved');
  }
  saving = false;
  drawConflict();
  draw();
}

async function remove() {
  if (!(await ask(`Delete the key "${name(state.key)}" and all its routes?`, 'Delete'))) return;
  saving = true;
  try {
    await send('DELETE', `/api/manual${encode(state.key)}?version=${encodeURIComponent(state.stored.version)}`);
    setValue('');
    state.stored = { value: '', version: '0' };
    say('deleted');
    loadKeys();
  } catch (err) {
    await refused(err, 'not deleted');
  }
  saving = false;
  drawConflict();
  draw();
}

// refused says why a write was not done, and shows what it ran into.
async function refused(err, what) {
  say(`${what}: ${problem(err)}`, true);
  if (!(err instanceof Refused)) return;
  if (err.status === 400 && err.body) {
    state.problems = err.body.problems;
    state.checked = true;
  } else if (err.status === 409 && err.message === 'version mismatch') {
    try {
      state.theirs = (await get('/api/manual' + encode(state.key))).data;
      say('conflict: somebody else saved this key meanwhile', true);
    } catch (e) {
      say(problem(e), true);
    }
  } else if (err.status === 401) {
    $('token').hidden = false;
    $('token').focus();
  }
}

function problem(err) {
  if (err instanceof Refused) return err.status === 401 ? 'the write token is missing or wrong' : err.message;
  return 'no answer from varco';
}

// ---- checking while writing

let asked = 0;

async function check() {
  const mine = ++asked;
  const value = area.value;
  if (!value.trim()) {
    state.problems = [];
    state.checked = true;
    draw();
    return;
  }
  try {
    const answer = await (await send('POST', '/api/validate', { value })).json();
    if (mine !== asked || value !== area.value) return;
    state.problems = answer.problems;
    state.checked = true;
  } catch (err) {
    if (mine !== asked) return;
    if (err instanceof Refused && err.status === 401) {
      state.checked = true; // without the token nothing can be checked; saving needs it, too
      $('token').hidden = false;
    }
    say(problem(err), true);
  }
  draw();
}

const checkSoon = debounce(check, 250);

area.addEventListener('input', () => {
  state.checked = false;
  say('');
  draw();
  checkSoon();
});

// ---- drawing

function say(text, bad = false) {
  setText($('status'), text);
  $('status').classList.toggle('bad', bad);
}

function setValue(value) {
  if (area.value === value) return;
  area.value = value;
  drawNumbers();
}

function draw() {
  const dirty = overrides.dirty();
  const usable = Boolean(state.info && state.info.overrides);
  $('save').disabled = !usable || saving || Boolean(state.theirs) || !dirty || state.problems.length > 0 || !state.checked;
  $('revert').disabled = !dirty || saving;
  $('delete').disabled = !usable || saving || state.stored.version === '0';
  setText($('save'), saving ? 'Saving' : 'Save');
  $('key-name').classList.toggle('dirty', dirty);
  if (dirty && state.checked && !$('status').textContent) say(state.problems.length ? plural(state.problems.length, 'problem') : 'no problems', state.problems.length > 0);
  drawNumbers();
  drawErrors();
}

function drawErrors() {
  $('overrides-errors').replaceChildren(...state.problems.slice(0, 100).map((p) => make('li', { 'data-line': p.line, 'data-column': p.column },
    make('button', { type: 'button', onclick: () => jump(p.line, p.column) },
      make('b', {}, p.line ? `${p.line}:${p.column}` : 'text'), ' ', p.reason, p.hint ? make('span', { class: 'fix' }, ` ${p.hint}`) : ''))));
  if (state.problems.length > 100) $('overrides-errors').append(make('li', {}, `and ${state.problems.length - 100} more`));
}

let lines = 0;
let marks = '';

function drawNumbers() {
  const n = area.value.split('\n').length;
  if (n !== lines) {
    lines = n;
    $('numbers').textContent = Array.from({ length: n }, (_, i) => i + 1).join('\n');
  }
  const bad = [...new Set(state.problems.map((p) => p.line))].filter(Boolean).slice(0, 500);
  const now = bad.join();
  if (now !== marks) {
    marks = now;
    for (const old of $('gutter').querySelectorAll('.mark')) old.remove();
    for (const line of bad) {
      const mark = make('span', { class: 'mark' });
      mark.style.setProperty('--at', line - 1);
      $('gutter').append(mark);
    }
  }
  $('gutter').scrollTop = area.scrollTop;
}

area.addEventListener('scroll', () => {
  $('gutter').scrollTop = area.scrollTop;
}, { passive: true });

// jump puts the cursor at a line and a column, which counts bytes, and selects the word there.
function jump(line, column) {
  const all = area.value.split('\n');
  const start = all.slice(0, line - 1).reduce((sum, l) => sum + l.length + 1, 0);
  const text = all[line - 1] || '';
  const bytes = new TextEncoder().encode(text).slice(0, Math.max(0, column - 1));
  const at = new TextDecoder().decode(bytes).length;
  const word = (text.slice(at).match(/^\S+/) || [''])[0].length;
  area.focus();
  area.setSelectionRange(start + at, start + at + word);
  area.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(area).lineHeight));
}

function drawConflict() {
  const box = $('conflict');
  box.hidden = !state.theirs;
  if (!state.theirs) return;
  setText($('conflict-text'), `Somebody else saved this key meanwhile (version ${state.stored.version} became ${state.theirs.version}). This is what they changed:`);
  const all = diff(state.stored.value, state.theirs.value);
  const near = (i) => all.slice(Math.max(0, i - 2), i + 3).some(([mark]) => mark !== ' ');
  const shown = [];
  all.forEach(([mark, text], i) => {
    if (near(i)) shown.push(make('div', { class: { '+': 'plus', '-': 'minus', ' ': '' }[mark] || undefined }, `${mark} ${text}`));
    else if (i === 0 || near(i - 1)) shown.push(make('div', { class: 'gap' }, '…'));
  });
  $('conflict-diff').replaceChildren(...shown.slice(0, 400));
}

function settle(value, text) {
  state.stored = state.theirs;
  state.theirs = null;
  setValue(value);
  state.checked = false;
  say(text);
  drawConflict();
  draw();
  check();
}

$('merge').addEventListener('click', () => {
  const { text, conflicts } = merge(state.stored.value, area.value, state.theirs.value);
  settle(text, conflicts ? `${plural(conflicts, 'place')} changed by both: choose between the marks` : 'merged: look at it, then save');
});
$('keep-mine').addEventListener('click', () => settle(area.value, 'saving now replaces what they saved'));
$('take-theirs').addEventListener('click', () => settle(state.theirs.value, 'theirs'));
$('save').addEventListener('click', save);
$('delete').addEventListener('click', remove);
$('revert').addEventListener('click', () => {
  setValue(state.stored.value);
  say('');
  state.checked = false;
  draw();
  check();
});
$('token').addEventListener('input', () => {
  setToken($('token').value);
  checkSoon();
});
document.addEventListener('keydown', (e) => {
  if ((e.ctrlKey || e.metaKey) && e.key === 's' && !$('view-manual').hidden) {
    e.preventDefault();
    save();
  }
});

function drawOptions(options) {
  $('options').replaceChildren(...options.map((o) => make('div', {}, make('dt', {}, make('code', {}, o.syntax || o.name)), make('dd', {}, o.help))));
}
