// Numbers for people: short, and as wide as the last one.

export const whole = (n) => n.toLocaleString('en-US');

// short is 0.25, 3.4, 120, 1.2k, 34k, 5.6M.
export function short(n) {
  if (n === null || n === undefined) return '–';
  if (n === 0) return '0';
  if (n < 0.01) return '<0.01';
  if (n < 1) return n.toFixed(2);
  if (n < 10) return n.toFixed(1);
  if (n < 1000) return String(Math.round(n));
  if (n < 10e3) return (n / 1e3).toFixed(1) + 'k';
  if (n < 1e6) return Math.round(n / 1e3) + 'k';
  return (n / 1e6).toFixed(1) + 'M';
}

// millis is a time that is given in milliseconds.
export function millis(ms) {
  if (!ms) return '–';
  if (ms < 1) return ms.toFixed(2) + ' ms';
  if (ms < 10) return ms.toFixed(1) + ' ms';
  if (ms < 1000) return Math.round(ms) + ' ms';
  if (ms < 10e3) return (ms / 1e3).toFixed(1) + ' s';
  return Math.round(ms / 1e3) + ' s';
}

// percent is a share of 1.
export function percent(share) {
  const p = share * 100;
  if (p === 0 || p === 100) return p + '%';
  if (p < 0.1) return '<0.1%';
  return (p < 10 ? p.toFixed(1) : String(Math.round(p))) + '%';
}

// ago is how long ago a time was.
export function ago(date, now = Date.now()) {
  const s = Math.max(0, Math.round((now - date) / 1000));
  if (s < 2) return 'just now';
  if (s < 60) return s + ' s ago';
  if (s < 3600) return Math.floor(s / 60) + ' min ago';
  if (s < 48 * 3600) return Math.floor(s / 3600) + ' h ago';
  return Math.floor(s / 86400) + ' d ago';
}

export const clock = (date) => date.toLocaleTimeString('en-GB');

export const plural = (n, thing) => `${whole(n)} ${thing}${n === 1 ? '' : 's'}`;
