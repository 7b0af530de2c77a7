// Differences of texts, line by line.

const limit = 4e6; // cells of the table in between()

// matches answers, for each line of a, which line of b it is in a longest common subsequence; -1 for none.
export function matches(a, b) {
  const found = new Array(a.length).fill(-1);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) found[start] = start++;
  let endA = a.length;
  let endB = b.length;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) found[--endA] = --endB;
  between(a, b, start, endA, endB, found);
  return found;
}

// between fills in what lies between the common beginning and the common end.
function between(a, b, start, endA, endB, found) {
  const n = endA - start;
  const m = endB - start;
  if (n * m > limit || n * m === 0) return; // too much to compare: all of it counts as changed
  const width = m + 1;
  const length = new Uint32Array((n + 1) * width);
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      length[i * width + j] = a[start + i] === b[start + j]
        ? length[(i + 1) * width + j + 1] + 1
        : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
    }
  }
  for (let i = 0, j = 0; i < n && j < m;) {
    if (a[start + i] === b[start + j]) found[start + i++] = start + j++;
    else if (length[(i + 1) * width + j] >= length[i * width + j + 1]) i++;
    else j++;
  }
}

// diff answers lines as [mark, text], mark being '-', '+' or ' '.
export function diff(before, after) {
  const a = before.split('\n');
  const b = after.split('\n');
  const found = matches(a, b);
  const out = [];
  let j = 0;
  a.forEach((line, i) => {
    if (found[i] < 0) {
      out.push(['-', line]);
      return;
    }
    while (j < found[i]) out.push(['+', b[j++]]);
    out.push([' ', line]);
    j++;
  });
  while (j < b.length) out.push(['+', b[j++]]);
  return out;
}

// merge puts the changes from base to mine and from base to theirs together. Where both changed the same lines
// differently, both stay in the text between lines that no route language has, so that it cannot be saved like that.
export function merge(base, mine, theirs) {
  const [o, a, b] = [base, mine, theirs].map((t) => t.split('\n'));
  const inA = matches(o, a);
  const inB = matches(o, b);
  const out = [];
  let conflicts = 0;
  let [i, j, k] = [0, 0, 0];
  const same = (x, y) => x.length === y.length && x.every((line, n) => line === y[n]);
  while (true) {
    let next = i;
    while (next < o.length && (inA[next] < 0 || inB[next] < 0)) next++;
    const [endA, endB] = next < o.length ? [inA[next], inB[next]] : [a.length, b.length];
    const [was, ours, others] = [o.slice(i, next), a.slice(j, endA), b.slice(k, endB)];
    if (same(ours, was)) out.push(...others);
    else if (same(others, was) || same(ours, others)) out.push(...ours);
    else {
      conflicts++;
      out.push('<<<<<<< mine', ...ours, '=======', ...others, '>>>>>>> saved meanwhile');
    }
    if (next >= o.length) break;
    out.push(o[next]);
    [i, j, k] = [next + 1, endA + 1, endB + 1];
  }
  return { text: out.join('\n'), conflicts };
}
