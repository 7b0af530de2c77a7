// Every setting, its value, where that comes from, and its default.

import { get } from './api.js';
import { $, make, setText } from './dom.js';
import { plural } from './format.js';

let all = [];

export const settings = {
  async open() {
    try {
      all = (await get('/api/config')).data;
    } catch {
      return; // the line to varco says that it is lost
    }
    draw();
  },
  close() {},
  query: () => 'limit=0',
  update() {},
};

function draw() {
  const words = $('setting-filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  const only = $('setting-changed').checked;
  const list = all.filter((s) => {
    const text = `${s.name} ${s.value} ${s.source}`.toLowerCase();
    return words.every((w) => text.includes(w)) && (!only || s.value !== s.default);
  });
  setText($('setting-matched'), plural(list.length, 'setting'));
  $('settings').replaceChildren(...list.map((s) => make('tr', { class: s.value !== s.default ? 'differs' : undefined, 'data-name': s.name },
    make('th', { scope: 'row' }, s.name),
    make('td', { class: 'value' }, s.value || make('span', { class: 'none' }, 'empty')),
    make('td', {}, s.source),
    make('td', { class: 'default' }, s.default || make('span', { class: 'none' }, 'empty')))));
}

$('setting-filter').addEventListener('input', draw);
$('setting-changed').addEventListener('change', draw);
