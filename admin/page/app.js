// The frame around the views: which one is shown, the line to varco, and what is wrong with it.

import { base, get, Refused } from './api.js';
import { $, setText } from './dom.js';
import { ago, clock, plural, short, whole } from './format.js';
import { routes } from './routes.js';
import { problems } from './problems.js';
import { overrides } from './overrides.js';
import { settings } from './settings.js';

const views = { routes, problems, manual: overrides, config: settings };

// A view has open(path), close(), query() (what it wants of /api/table) and update(table) for each answer. leave(),
// where there is one, answers whether the view may be left.
let view = routes;
let info = null; // what varco says of itself, /api/info

// ---- which view

function viewOf(pathname) {
  const [name, ...rest] = pathname.slice(base.length + 1).split('/');
  const found = Object.hasOwn(views, name) ? name : 'routes';
  const key = rest.map((part) => '/' + decode(part)).join('');
  return [found, key];
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

let here = location.href;

function show() {
  const [name, key] = viewOf(location.pathname);
  here = location.href;
  view.close();
  view = views[name];
  for (const section of document.querySelectorAll('.view')) section.hidden = section.id !== 'view-' + name;
  for (const a of document.querySelectorAll('[data-view]')) {
    if (a.dataset.view === name && a.closest('nav')) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  view.open(key, info);
  line.ask();
}

// go shows another view, unless the present one holds on.
async function go(href) {
  if (view.leave && !(await view.leave())) return;
  history.pushState(null, '', href);
  show();
}

document.addEventListener('click', (e) => {
  const a = e.target.closest('a');
  if (!a || a.target || a.origin !== location.origin || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
  const name = a.pathname.slice(base.length + 1).split('/')[0];
  if (!a.pathname.startsWith(base + '/') || !Object.hasOwn(views, name)) return;
  e.preventDefault();
  go(a.href);
});
addEventListener('popstate', async () => {
  const wanted = location.href;
  if (!view.leave || (await view.leave())) show();
  else if (location.href === wanted) history.pushState(null, '', here);
});

// ---- the line to varco: one question about a second, none while nobody looks

const line = {
  timer: 0,
  busy: false,
  again: false,
  etag: '',
  query: '',
  failed: 0,
  last: 0, // time of the last answer
  table: null,

  // ask asks now, or right after the question that is on its way.
  ask() {
    clearTimeout(this.timer);
    if (this.busy) {
      this.again = true;
      return;
    }
    if (document.hidden) return;
    this.run();
  },

  async run() {
    this.busy = true;
    this.again = false;
    const query = view.query();
    if (query !== this.query) [this.query, this.etag] = [query, ''];
    try {
      const { data, res } = await get('/api/table?' + query, this.etag);
      this.last = Date.now();
      this.failed = 0;
      if (data) {
        this.etag = res.headers.get('ETag') || '';
        this.table = data;
        if (query === view.query()) view.update(data);
      }
      this.answered();
    } catch (err) {
      this.failed++;
      this.lost(err);
    }
    this.busy = false;
    if (this.again) this.ask();
    else if (!document.hidden) this.timer = setTimeout(() => this.run(), this.failed ? Math.min(5000, 1000 * this.failed) : 1000);
  },

  answered() {
    const t = this.table;
    live(t.notready ? 'wait' : 'ok', 'live');
    banner('lost', '');
    banner('wait', t.notready && `No routes yet: ${t.notready}`);
    banner('trouble', t.trouble && `Routes may be old: ${t.trouble}`);
    document.body.classList.remove('old');
    totals(t);
    if (t.started !== info.started) restarted();
  },

  lost(err) {
    if (this.failed < 2 && this.last) return; // one may be lost on the way
    const why = err instanceof Refused ? ` (${err.message})` : '';
    const since = this.last ? ` since ${clock(new Date(this.last))}. What you see is old` : '';
    live('lost', 'no answer');
    banner('lost', `No answer from varco${since}${why}. Trying again.`);
    document.body.classList.add('old');
  },
};

document.addEventListener('visibilitychange', () => {
  if (document.hidden) live('paused', 'paused');
  else line.ask();
});
addEventListener('online', () => line.ask());

function live(state, text) {
  $('live').dataset.state = state;
  setText($('live-text'), text);
}

function banner(name, text) {
  const el = $('banner-' + name);
  setText(el, text || '');
  el.hidden = !text;
}

function totals(t) {
  setText($('total-routes'), whole(t.routes));
  setText($('total-targets'), whole(t.targets));
  setText($('total-rate'), short(t.rate));
  setText($('total-errors'), short(t.errorrate));
  setText($('total-inflight'), whole(t.inflight));
  $('total-errors').classList.toggle('bad', t.errorrate > 0);
  const badge = $('problem-count');
  badge.hidden = !t.problems;
  setText(badge, t.problems > 999 ? '999+' : String(t.problems));
  badge.title = plural(t.problems, 'problem');
  changed();
}

function changed() {
  if (line.table) setText($('total-changed'), ago(Date.parse(line.table.updated)));
}
setInterval(changed, 1000);

// restarted asks what the page was told once; a page of another version than varco's should be loaded anew.
async function restarted() {
  try {
    const { data } = await get('/api/info');
    if (data.version !== info.version) {
      banner('reload', `varco is now version ${data.version}. Reload this page to match it.`);
    }
    info = data;
    view.open(viewOf(location.pathname)[1], info);
    line.ask();
  } catch {
    // The next answer of the line tries again.
  }
}

// ---- keys and colors

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = e.target.matches('input, textarea, select');
  if (e.key === '/' && !typing) {
    const search = document.querySelector('.view:not([hidden]) input[type=search]');
    if (search) {
      e.preventDefault();
      search.focus();
      search.select();
    }
  } else if (e.key === 'Escape' && typing && e.target.type === 'search') {
    if (e.target.value) {
      e.target.value = '';
      e.target.dispatchEvent(new Event('input'));
    } else {
      e.target.blur();
    }
  }
});

const themes = ['auto', 'light', 'dark'];

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  setText($('theme-name'), name[0].toUpperCase() + name.slice(1));
  try {
    localStorage.setItem('varco-theme', name);
  } catch {
    // Storage may be forbidden.
  }
}
$('theme').addEventListener('click', () => {
  const now = document.documentElement.dataset.theme;
  setTheme(themes[(themes.indexOf(now) + 1) % themes.length]);
});
let theme = 'auto';
try {
  theme = localStorage.getItem('varco-theme');
} catch {
  // Storage may be forbidden.
}
setTheme(themes.includes(theme) ? theme : 'auto');

overrides.navigate = go;
for (const v of Object.values(views)) v.refresh = () => info && line.ask();
addEventListener('beforeunload', (e) => {
  if (overrides.dirty()) e.preventDefault();
});

async function start() {
  try {
    info = (await get('/api/info')).data;
  } catch (err) {
    line.failed++;
    line.lost(err);
    setTimeout(start, 2000);
    return;
  }
  show();
}
start();
