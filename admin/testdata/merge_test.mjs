// Tests of page/merge.js: node testdata/merge_test.mjs

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const source = readFileSync(new URL('../page/merge.js', import.meta.url), 'utf8');
const { diff, matches, merge } = await import('data:text/javascript,' + encodeURIComponent(source));

const lines = (...l) => l.join('\n');

// One side changed.
assert.deepEqual(merge('a\nb', 'a\nb', 'a\nc'), { text: 'a\nc', conflicts: 0 });
assert.deepEqual(merge('a\nb', 'a\nc', 'a\nb'), { text: 'a\nc', conflicts: 0 });
// Both made the same change.
assert.deepEqual(merge('a', 'b', 'b'), { text: 'b', conflicts: 0 });
// Both changed different places.
assert.deepEqual(
  merge(lines('1', '2', '3', '4', '5'), lines('0', '1', '2', '3', '4', '5'), lines('1', '2', '3', '4', 'five')),
  { text: lines('0', '1', '2', '3', '4', 'five'), conflicts: 0 });
// One deleted, the other added elsewhere.
assert.deepEqual(merge(lines('1', '2', '3', '4'), lines('1', '3', '4'), lines('1', '2', '3', '4', '5')), { text: lines('1', '3', '4', '5'), conflicts: 0 });
// Both changed the same line.
assert.deepEqual(merge(lines('1', 'x', '3'), lines('1', 'y', '3'), lines('1', 'z', '3')), {
  text: lines('1', '<<<<<<< mine', 'y', '=======', 'z', '>>>>>>> saved meanwhile', '3'), conflicts: 1 });
// Empty texts.
assert.deepEqual(merge('', '', ''), { text: '', conflicts: 0 });
assert.deepEqual(merge('', 'a', ''), { text: 'a', conflicts: 0 });
assert.deepEqual(merge('', '', 'a\n'), { text: 'a\n', conflicts: 0 });

assert.deepEqual(diff('a\nb\nc', 'a\nx\nc'), [[' ', 'a'], ['-', 'b'], ['+', 'x'], [' ', 'c']]);
assert.deepEqual(diff('', 'a'), [['-', ''], ['+', 'a']]);

// Random texts: a diff holds both sides, and a merge with one unchanged side is the other side.
let seed = 1;
const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
const text = () => Array.from({ length: random(12) }, () => 'abcd'[random(4)]).join('\n');
for (let i = 0; i < 1500; i++) {
  const [base, mine, theirs] = [text(), text(), text()];
  const d = diff(base, mine);
  assert.equal(d.filter(([m]) => m !== '+').map(([, l]) => l).join('\n'), base);
  assert.equal(d.filter(([m]) => m !== '-').map(([, l]) => l).join('\n'), mine);
  assert.deepEqual(merge(base, mine, base), { text: mine, conflicts: 0 });
  assert.deepEqual(merge(base, base, theirs), { text: theirs, conflicts: 0 });
  assert.equal(merge(base, mine, mine).text, mine);
  const found = matches(base.split('\n'), mine.split('\n')).filter((n) => n >= 0);
  assert.deepEqual(found, [...found].sort((a, b) => a - b));
}

// A text that is too long to be compared line by line is merged all the same.
const long = Array.from({ length: 9000 }, (_, i) => 'route add s' + i);
const changed = long.map((l, i) => (i % 3 ? l : l + 'x'));
const merged = merge(long.join('\n'), changed.join('\n'), long.join('\n') + '\nend');
assert.deepEqual(merged, { text: changed.join('\n') + '\nend', conflicts: 0 });
