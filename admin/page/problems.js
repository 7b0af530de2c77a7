// The tags, lines and targets that were refused.

import { get } from './api.js';
import { $, debounce, make, setText } from './dom.js';
import { plural, whole } from './format.js';

const limit = 200;
let seen = '';
let loaded = 0;
let shown = limit;
let text = '';

export const problems = {
  open() {
    seen = '';
  },

  close() {},

  query: () => 'limit=0',

  update(table) {
    // The count and the version of the table tell whether the list may have changed; the rest takes a few seconds.
    const now = `${table.problems} ${table.version} ${table.updated}`;
    if (now === seen && Date.now() - loaded < 5000) return;
    seen = now;
    loaded = Date.now();
    load();
  },
};

async function load() {
  const q = new URLSearchParams({ limit: shown });
  const filter = $('problem-filter').value.trim();
  if (filter) q.set('q', filter);
  try {
    const { data, res } = await get('/api/problems?' + q);
    draw(data, Number(res.headers.get('X-Total-Count')), filter);
  } catch {
    seen = ''; // the line to varco says that it is lost; ask again with its next answer
  }
}

function draw(list, total, filter) {
  const now = JSON.stringify([list, total]);
  setText($('problem-matched'), filter ? plural(total, 'match').replace('matchs', 'matches') : plural(total, 'problem'));
  $('problems-empty').hidden = total > 0;
  setText($('problems-empty'), filter ? 'No problem matches the filter.' : 'No problems: every tag and every line is in use.');
  if (now === text) return;
  text = now;
  $('problems').replaceChildren(...list.map(item));
  if (list.length < total) {
    const more = make('button', { type: 'button', onclick: () => {
      shown += limit;
      load();
    } }, `Show more of ${whole(total)}`);
    $('problems').append(make('li', { class: 'more' }, more));
  }
}

function item(p) {
  const o = p.origin || {};
  const place = o.source ? [o.source, o.line, o.column].filter(Boolean).join(':') : '';
  const facts = [['service', o.service], ['node', o.node], ['instance', o.instance], ['at', place]].filter(([, v]) => v);
  return make('li', { 'data-service': o.service || '', 'data-source': o.source || '', 'data-line': o.line || '' },
    make('p', { class: 'reason' }, p.reason),
    make('pre', { class: 'offender' }, p.text || o.tag || ''),
    p.hint ? make('p', { class: 'fix' }, make('b', {}, 'Fix: '), p.hint) : null,
    make('p', { class: 'where' }, ...facts.map(([k, v]) => make('span', {}, make('i', {}, k + ' '), v))));
}

$('problem-filter').addEventListener('input', debounce(() => {
  shown = limit;
  load();
}, 150));
