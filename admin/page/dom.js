// Elements are made of text only: nothing here, or anywhere on the page, turns text into markup.

export const $ = (id) => document.getElementById(id);

// make builds an element: make('a', {href: '/x', class: 'y'}, 'text', otherElement).
export function make(tag, attributes = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
    else el.setAttribute(name, value === true ? '' : value);
  }
  el.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

// setText changes an element's text only when it differs, so that selections and screen readers are left alone.
export function setText(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

export function setTitle(el, text) {
  if (el.title !== text) el.title = text;
}

// webLink is url when it is an http or https address, and null for anything else, such as javascript:.
export function webLink(url) {
  try {
    const u = new URL(url);
    return u.protocol === 'http:' || u.protocol === 'https:' ? u.href : null;
  } catch {
    return null;
  }
}

// debounce calls f once, when it has not been asked to for ms.
export function debounce(f, ms) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => f(...args), ms);
  };
}

// ask shows a question and answers whether it was confirmed.
export function ask(question, yes) {
  const dialog = $('dialog');
  setText($('dialog-text'), question);
  setText($('dialog-yes'), yes);
  return new Promise((resolve) => {
    const end = (answer) => () => {
      dialog.close(answer);
    };
    $('dialog-yes').onclick = end('yes');
    $('dialog-no').onclick = end('no');
    dialog.onclose = () => resolve(dialog.returnValue === 'yes');
    dialog.returnValue = 'no';
    dialog.showModal();
    $('dialog-no').focus();
  });
}
