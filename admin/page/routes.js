// The routing table. Only the rows that can be seen exist: they are asked for by their place in the filtered and
// sorted table, drawn into a few elements that are used again and again, and the scroll bar stands for the rest.

import { $, debounce, make, setText, setTitle, webLink } from './dom.js';
import { millis, percent, plural, short, whole } from './format.js';

const columns = [
  { key: '', name: '#', cls: 'n' },
  { key: 'route', name: 'Route', cls: 'route' },
  { key: 'service', name: 'Service', cls: 'service' },
  { key: 'dst', name: 'Target', cls: 'dst' },
  { key: '', name: 'Options, tags', cls: 'opts' },
  { key: '-weight', name: 'Share', cls: 'share num' },
  { key: '-rate', name: 'Req/s', cls: 'rate num', title: 'requests per second' },
  { key: '-errors', name: 'Err/s', cls: 'err num', title: 'errors per second: no answer from the target, or a 5xx one' },
  { key: '-p99', name: 'p99', cls: 'p99 num', title: '99 of 100 requests are faster' },
  { key: '-inflight', name: 'Open', cls: 'inflight num', title: 'requests and connections in flight' },
];

const chunk = 50; // rows are asked for in steps of this
const keep = 3000; // rows remembered

const params = new URLSearchParams(location.search);

const state = {
  filter: params.get('filter') || '',
  sort: params.get('sort') || 'route',
  rows: new Map(), // by place
  matched: null,
  selected: -1, // place of the selected row
  key: '', // what is selected; its place may change
  info: null,
};

const pool = []; // row elements
let rowHeight = 30;

export const routes = {
  open(_, info) {
    state.info = info;
    $('filter').value = state.filter;
    drawHead();
    measure();
    draw();
  },

  close() {},

  query() {
    const [from, to] = visible();
    const offset = Math.floor(from / chunk) * chunk;
    const limit = Math.min(500, Math.ceil((to - offset) / chunk) * chunk);
    const q = new URLSearchParams({ offset, limit });
    if (state.filter) q.set('q', state.filter);
    if (state.sort !== 'route') q.set('sort', state.sort);
    return q.toString();
  },

  update(table) {
    if (state.rows.size > keep) state.rows.clear();
    if (state.matched !== table.matched || state.version !== table.version) {
      // The places have shifted: what is not in this answer would be drawn at the wrong one.
      state.rows.clear();
    }
    state.version = table.version;
    state.matched = table.matched;
    state.total = table.targets;
    table.rows.forEach((row, i) => state.rows.set(table.offset + i, row));
    follow(table);
    draw();
  },
};

// visible is the range of places that can be seen, with some to spare.
function visible() {
  const scroll = $('scroll');
  const spare = 10;
  const from = Math.max(0, Math.floor(scroll.scrollTop / rowHeight) - spare);
  const to = Math.ceil((scroll.scrollTop + (scroll.clientHeight || 800)) / rowHeight) + spare;
  return [from, state.matched === null ? to : Math.max(from + 1, Math.min(to, state.matched))];
}

function measure() {
  rowHeight = parseFloat(getComputedStyle($('grid')).getPropertyValue('--row')) || 30;
}

// ---- drawing

function drawHead() {
  const head = $('head');
  if (!head.childElementCount) {
    for (const c of columns) {
      const cell = make('div', { class: 'cell ' + c.cls, role: 'columnheader', title: c.title });
      if (c.key) cell.append(make('button', { type: 'button', onclick: () => sortBy(c.key) }, c.name));
      else cell.append(make('span', {}, c.name));
      head.append(cell);
      if (c.key) $('sort').append(make('option', { value: c.key }, c.name));
    }
    $('sort').addEventListener('change', (e) => setSort(e.target.value));
  }
  columns.forEach((c, i) => {
    const word = (s) => s.replace('-', '');
    const on = c.key && word(c.key) === word(state.sort);
    const cell = head.children[i];
    if (on) cell.setAttribute('aria-sort', state.sort.startsWith('-') ? 'descending' : 'ascending');
    else cell.removeAttribute('aria-sort');
    if (on) $('sort').value = c.key;
  });
}

function draw() {
  const box = $('routes');
  const matched = state.matched || 0;
  box.style.height = matched * rowHeight + 'px';
  $('scroll').setAttribute('aria-rowcount', matched + 1);
  const [from, to] = visible();
  const count = Math.max(0, Math.min(to, matched) - from);
  while (pool.length < count) {
    const row = newRow();
    pool.push(row);
    box.append(row.el);
  }
  // A place keeps its element while it is in sight, so that a click or a selection survives scrolling.
  const size = pool.length;
  pool.forEach((row, slot) => {
    let at = from + ((slot - (from % size) + size) % size);
    if (at >= from + count) at = -1;
    fill(row, at);
  });
  drawEmpty(matched);
}

function drawEmpty(matched) {
  const empty = $('empty');
  empty.hidden = state.matched === null || matched > 0;
  if (!empty.hidden) setText(empty, state.filter ? 'No route matches the filter.' : 'The routing table is empty.');
  const text = state.matched === null ? '' : state.filter ? `${whole(matched)} of ${plural(state.total, 'target')}` : '';
  setText($('matched'), text);
}

function newRow() {
  const cell = (cls, ...children) => make('div', { class: 'cell ' + cls, role: 'gridcell' }, ...children);
  const r = {
    at: -1,
    n: cell('n'),
    anchor: make('a', { rel: 'noopener noreferrer' }),
    host: make('b'),
    path: make('span'),
    match: make('i', { class: 'match' }),
    service: cell('service'),
    scheme: make('i'),
    addr: make('span'),
    opts: cell('opts'),
    bar: make('span', { class: 'fill' }),
    share: make('span'),
    rate: cell('rate num'),
    err: cell('err num'),
    p99: cell('p99 num'),
    inflight: cell('inflight num'),
  };
  r.anchor.append(r.host, r.path);
  r.route = cell('route', r.anchor, r.match);
  r.dst = cell('dst', r.scheme, r.addr);
  r.el = make('div', { class: 'row', role: 'row', hidden: true, onclick: (e) => e.target.closest('a[href]') || select(r.at, true) },
    r.n, r.route, r.service, r.dst, r.opts, cell('share num', make('span', { class: 'bar-box', 'aria-hidden': 'true' }, r.bar), r.share), r.rate, r.err, r.p99, r.inflight);
  return r;
}

// names are the parts of a row that its element shows as data-…, for tests and for people with a style sheet.
const names = ['service', 'host', 'path', 'dst', 'state'];

function fill(r, at) {
  r.el.hidden = at < 0;
  r.at = at;
  const d = state.rows.get(at);
  if (!d) for (const name of names) delete r.el.dataset[name];
  if (at < 0) return;
  r.el.style.transform = `translateY(${at * rowHeight}px)`;
  r.el.setAttribute('aria-rowindex', at + 2);
  r.el.classList.toggle('selected', at === state.selected);
  r.el.classList.toggle('waiting', !d);
  r.el.id = 'row-' + at;
  if (!d) {
    delete r.opts.dataset.text;
    setLink(r.anchor, null);
    for (const el of [r.n, r.host, r.path, r.match, r.service, r.scheme, r.addr, r.opts, r.share, r.rate, r.err, r.p99, r.inflight]) setText(el, '');
    r.bar.style.width = '0';
    return;
  }
  const before = state.sort === 'route' ? state.rows.get(at - 1) : null;
  const down = d.state === 'down';
  r.el.classList.toggle('same', Boolean(before && before.host === d.host && before.path === d.path && before.match === d.match));
  r.el.classList.toggle('down', down);
  r.el.classList.toggle('idle', d.state === 'idle');
  for (const name of names) r.el.dataset[name] = d[name];
  setText(r.n, whole(d.n));
  setText(r.host, d.host);
  setText(r.path, d.path);
  setText(r.match, d.match === 'prefix' || d.host.startsWith(':') ? '' : d.match);
  setTitle(r.route, d.host + d.path);
  setLink(r.anchor, sourceLink(d));
  setText(r.service, down ? 'no target: 503' : d.service);
  setTitle(r.service, down ? 'The route is known, but no instance is healthy or every target was refused: requests get 503.' : d.service);
  const scheme = (d.dst.match(/^[a-z]+:\/\//) || [''])[0];
  setText(r.scheme, scheme);
  setText(r.addr, d.dst.slice(scheme.length));
  setTitle(r.dst, d.dst);
  const words = optionWords(d);
  if (r.opts.dataset.text !== words.text) {
    r.opts.dataset.text = words.text;
    r.opts.replaceChildren(...words.opts.map((w) => make('code', {}, w)), ...words.tags.map((w) => make('span', { class: 'tag' }, w)));
    r.opts.title = words.text;
  }
  r.bar.style.width = Math.round(d.weight * 100) + '%';
  setText(r.share, down ? '–' : percent(d.weight));
  number(r.rate, short(d.rate), !d.rate);
  number(r.err, short(d.errorrate), !d.errorrate);
  r.err.classList.toggle('bad', d.errorrate > 0);
  setTitle(r.err, `${plural(d.errors, 'error')} in ${plural(d.requests, 'request')}`);
  number(r.p99, millis(d.p99_ms), !d.p99_ms);
  number(r.inflight, whole(d.inflight), !d.inflight);
}

function setLink(a, href) {
  if (!href) a.removeAttribute('href');
  else if (a.getAttribute('href') !== href) {
    a.setAttribute('href', href);
    state.info.link.newtab ? a.setAttribute('target', '_blank') : a.removeAttribute('target');
  }
}

function number(el, text, quiet) {
  setText(el, text);
  el.classList.toggle('quiet', quiet);
}

function optionWords(d) {
  const opts = d.opts.map(([k, v]) => (v ? `${k}=${v}` : k));
  return { opts, tags: d.tags, text: [...opts, ...d.tags].join('  ') };
}

// ---- the selected row and its details

const keyOf = (d) => [d.host, d.path, d.match, d.service, d.dst].join('\n');

// follow finds the selected row after the order may have changed.
function follow(table) {
  if (!state.key) return;
  const i = table.rows.findIndex((d) => keyOf(d) === state.key);
  state.selected = i < 0 ? -1 : table.offset + i;
  if (i >= 0 && !$('detail').hidden) drawDetail(table.rows[i]);
}

function select(at, open) {
  if (at < 0 || state.matched === null) return;
  state.selected = Math.max(0, Math.min(at, state.matched - 1));
  const d = state.rows.get(state.selected);
  state.key = d ? keyOf(d) : '';
  $('scroll').setAttribute('aria-activedescendant', 'row-' + state.selected);
  if (open) drawDetail(d);
  draw();
}

function closeDetail() {
  $('detail').hidden = true;
  $('scroll').focus({ preventScroll: true });
}

let detailText = '';

function drawDetail(d) {
  const box = $('detail');
  if (!d) return;
  const text = JSON.stringify(d);
  if (!box.hidden && text === detailText) return;
  detailText = text;
  const o = d.origin;
  const where = o.source ? [o.source, o.line, o.column].filter(Boolean).join(':') : '';
  const facts = (...pairs) => make('dl', {}, ...pairs.filter(([, v]) => v !== '' && v !== undefined && v !== null).map(([k, v]) => make('div', {}, make('dt', {}, k), make('dd', {}, v))));
  const help = Object.fromEntries((state.info.options || []).map((h) => [h.name, h.help]));
  const close = make('button', { type: 'button', class: 'quiet close', 'aria-label': 'Close details', title: 'Esc', onclick: closeDetail }, '×');
  box.replaceChildren(...[
    make('div', { class: 'detail-head' }, make('h2', {}, d.host + d.path), close),
    d.state === 'down' ? make('p', { class: 'note bad' }, 'No target: requests get 503. No instance is healthy, or every target was refused; see Problems.') : null,
    d.state === 'idle' ? make('p', { class: 'note' }, 'No share of the traffic: others have fixed weights that add up to all of it.') : null,
    facts(
      ['host', d.host || 'any'], ['path', d.path], ['compared', d.match],
      ['service', d.service], ['target', d.dst && link(webLink(d.dst), d.dst)],
      ['share', d.state === 'down' ? '' : percent(d.weight) + (d.fixed ? ` (asked for ${d.fixed})` : '')],
    ),
    make('h3', {}, 'Traffic'),
    facts(
      ['requests', `${whole(d.requests)} (${short(d.rate)} per second)`],
      ['errors', `${whole(d.errors)} (${short(d.errorrate)} per second${d.requests ? `, ${percent(d.errors / d.requests)} of all` : ''})`],
      ['p99', millis(d.p99_ms)], ['in flight', whole(d.inflight)],
    ),
    d.opts.length ? make('h3', {}, 'Options') : null,
    d.opts.length ? make('dl', { class: 'options' }, ...d.opts.map(([k, v]) => make('div', {}, make('dt', {}, make('code', {}, v ? `${k}=${v}` : k)), make('dd', {}, Object.hasOwn(help, k) ? help[k] : '')))) : null,
    d.tags.length ? make('h3', {}, 'Tags') : null,
    d.tags.length ? make('p', { class: 'tags' }, ...d.tags.map((t) => make('span', { class: 'tag' }, t))) : null,
    make('h3', {}, 'Where it comes from'),
    facts(['node', o.node], ['instance', o.instance], ['tag', o.tag && make('code', {}, o.tag)], ['text', where], ['service', o.service && o.service !== d.service ? o.service : '']),
  ].filter(Boolean));
  box.hidden = false;
}

function link(href, text) {
  if (!href) return make('span', {}, text);
  return make('a', { href, target: '_blank', rel: 'noopener noreferrer' }, text);
}

// sourceLink is where a route leads, when ui.routingtable.source.linkenabled is set and the route names one place.
function sourceLink(d) {
  const l = state.info.link;
  if (!l || !l.enabled || d.host.startsWith(':') || /[*?[\]{}\\]/.test(d.host + d.path)) return null;
  const scheme = (l.scheme || location.protocol.replace(':', '')) + '://';
  const host = d.host || (l.host || location.hostname) + (l.port ? ':' + l.port : '');
  return webLink(scheme + host + d.path);
}

// ---- filter, order, scrolling, keys

function restart() {
  state.rows.clear();
  [state.selected, state.key] = [-1, ''];
  $('detail').hidden = true;
  $('scroll').scrollTop = 0;
  const q = new URLSearchParams(location.search);
  state.filter ? q.set('filter', state.filter) : q.delete('filter');
  state.sort !== 'route' ? q.set('sort', state.sort) : q.delete('sort');
  const text = q.toString();
  history.replaceState(null, '', location.pathname + (text ? '?' + text : ''));
  routes.refresh();
}

$('filter').addEventListener('input', debounce(() => {
  const text = $('filter').value.trim();
  if (text === state.filter) return;
  state.filter = text;
  restart();
}, 120));

function setSort(key) {
  state.sort = key;
  drawHead();
  restart();
}

// sortBy sorts by a column; a second click turns it round.
function sortBy(key) {
  const other = key.startsWith('-') ? key.slice(1) : '-' + key;
  setSort(state.sort === key ? other : key);
}

let lastQuery = '';

$('scroll').addEventListener('scroll', () => {
  requestAnimationFrame(() => {
    draw();
    const query = routes.query();
    if (query !== lastQuery) {
      lastQuery = query;
      routes.refresh();
    }
  });
}, { passive: true });

new ResizeObserver(() => {
  if ($('view-routes').hidden) return;
  measure();
  draw();
  routes.refresh && routes.refresh();
}).observe($('scroll'));

document.addEventListener('keydown', (e) => {
  if ($('view-routes').hidden || (e.target !== $('scroll') && e.target !== document.body) || e.ctrlKey || e.metaKey || e.altKey) return;
  const page = Math.max(1, Math.floor($('scroll').clientHeight / rowHeight) - 2);
  const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page }[e.key];
  if (step) {
    e.preventDefault();
    const first = Math.ceil($('scroll').scrollTop / rowHeight);
    select(state.selected < 0 ? first : state.selected + step, !$('detail').hidden);
    keepInSight();
  } else if (e.key === 'Enter' && state.selected >= 0) {
    select(state.selected, true);
  } else if (e.key === 'Home' || e.key === 'End') {
    e.preventDefault();
    select(e.key === 'Home' ? 0 : state.matched - 1, !$('detail').hidden);
    keepInSight();
  }
});

function keepInSight() {
  const scroll = $('scroll');
  const head = $('head').offsetHeight;
  const top = state.selected * rowHeight;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  else if (top + rowHeight + head > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + rowHeight + head - scroll.clientHeight;
}

document.addEventListener('keydown', (e) => {
  if (e.key === 'Escape' && !$('detail').hidden && !e.target.matches('input, textarea')) closeDetail();
});
