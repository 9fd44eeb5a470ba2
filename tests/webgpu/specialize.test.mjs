// What specialize() leaves out of a kernel and what it must keep. Texts look as tint writes them.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { evaluate } from '../../shaders/webgpu/evaluate.mjs';
import { parse_declaration, specialize } from '../../shaders/webgpu/specialize.mjs';

const lines = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean);
const run = (...texts) => lines(specialize(texts.map(parse_declaration)));
const main = (body) => `@compute @workgroup_size(1u, 1u, 1u)\nfn main() {\n${body}\n}`;
const inside = (out) => out.slice(out.indexOf('fn main() {') + 1, -1);
const constant = (v) => ({ type: typeof v === 'boolean' ? 'bool' : 'u32', value: v });
const value = (text, known = {}) =>
  evaluate(text, new Map(Object.entries(known).map(([name, v]) => [name, constant(v)])))?.value;

test('expressions are computed as u32, i32 and bool are, and the unknown stays so', () => {
  assert.equal(value('(3u - 4u)'), 4294967295);
  assert.equal(value('(2147483647i + 1i)'), -2147483648);
  assert.equal(value('(65535u * 65537u)'), 4294967295);
  assert.equal(value('(4294967295u >> 31u)'), 1);
  assert.equal(value('(-8i >> 1u)'), -4);
  assert.equal(value('(7u / 2u)'), 3);
  assert.equal(value('(-7i / 2i)'), -3);
  assert.equal(value('(-7i % 2i)'), -1);
  assert.equal(value('(1u / 0u)'), undefined);
  assert.equal(value('(1u << 32u)'), undefined);
  assert.equal(value('1u + 2u * 3u == 7u'), true);
  assert.equal(value('select(1u, 2u, (N > 3u))', { N: 4 }), 2);
  assert.equal(value('((N == 1u) || (x == 2u))', { N: 1 }), true);
  assert.equal(value('((N == 1u) & (x == 2u))', { N: 0 }), false);
  assert.equal(value('((N == 1u) & (x == 2u))', { N: 1 }), undefined);
  assert.equal(value('!(A)', { A: false }), true);
  for (const text of ['x', 'a.x', 'a[0u]', 'f(1u)', 'vec2<u32>(1u, 2u)', '1.0f', '', '(1u', 'bitcast<u32>(1i)']) {
    assert.equal(value(text), undefined, text);
  }
});

test('a known branch stays, and what nobody uses goes', () => {
  const out = run('const N : u32 = 2u;', 'var<private> a : u32;', 'var<private> b : u32;',
    `fn unused() {
  b = 1u;
}`,
    main(`  var x : u32;
  var y : u32;
  if ((N == 2u)) {
    a = 5u;
  } else {
    unused();
    y = b;
  }`));
  assert.deepEqual(out, ['var<private> a : u32;', '@compute @workgroup_size(1u, 1u, 1u)', 'fn main() {', '{', 'a = 5u;',
    '}', '}']);
});

test('else if, and a branch that is not known', () => {
  const out = run('const N : u32 = 2u;', 'var<private> a : u32;',
    main(`  if ((a == 1u)) {
    a = 1u;
  } else if ((N == 1u)) {
    a = 2u;
  } else {
    a = 3u;
  }`));
  assert.deepEqual(inside(out), ['if ((a == 1u)) {', 'a = 1u;', '} else {', '{', 'a = 3u;', '}', '}']);
});

test('of a switch the case stays, by several labels or by default, without its break', () => {
  const body = (n) => inside(run(`const N : u32 = ${n}u;`, 'var<private> a : u32;',
    main(`  switch(N) {
    case 1u, 2u: {
      a = 12u;
      break;
    }
    default: {
      a = 9u;
    }
  }`)));
  assert.deepEqual(body(2), ['{', 'a = 12u;', '}']);
  assert.deepEqual(body(7), ['{', 'a = 9u;', '}']);
});

test('a break in the middle of a case leaves the switch, and forgets what it may have skipped', () => {
  const out = inside(run('const N : u32 = 1u;', 'var<private> a : u32;', 'var<private> r : u32;',
    main(`  var x : u32;
  x = 1u;
  switch(N) {
    default: {
      if ((a == 0u)) {
        break;
      }
      x = 2u;
    }
  }
  if ((x == 1u)) {
    r = 1u;
  }`)));
  assert.ok(out.includes('switch(0u) {'));
  assert.ok(out.includes('if ((x == 1u)) {'), out.join('\n'));
});

test('functions are copied for numbers that decide something, not for others', () => {
  const out = run('var<private> a : u32;', 'const D : u32 = 1u;',
    `fn load(i : u32, dtype : u32) -> u32 {
  switch(dtype) {
    case 1u: {
      return i;
    }
    default: {
      return 0u;
    }
  }
  return u32();
}`,
    `fn pair(i : u32, dtype : u32) -> u32 {
  let d = dtype;
  return (load(i, d) + load((i + 1u), d));
}`,
    main(`  a = pair(3u, D);
  a = pair(4u, D);
  a = pair(5u, 2u);
  a = load(1u, a);`));
  const text = out.join('\n');
  assert.equal(out.filter((line) => line.startsWith('fn pair')).length, 2, text);
  assert.equal(out.filter((line) => line.startsWith('fn load')).length, 3, text);
  assert.ok(!text.includes('return u32();'), 'what stands behind the end of a function');
  assert.equal(out.filter((line) => line.startsWith('switch')).length, 1, text);
});

test('variables are known until something may change them', () => {
  const body = (text) => inside(run('var<private> a : u32;', `fn set(p : ptr<function, u32>) {
  *(p) = 7u;
}`,
    main(`  var x : u32;
  x = 1u;
${text}
  if ((x == 1u)) {
    a = 1u;
  }`))).includes('if ((x == 1u)) {');
  assert.equal(body(''), false);
  assert.equal(body('  set(&(x));'), true);
  assert.equal(body('  x = a;'), true);
  assert.equal(body('  x += 1u;'), true);
  assert.equal(body(`  if ((a == 1u)) {
    x = 2u;
  }`), true);
  assert.equal(body(`  loop {
    if ((x < a)) {
      break;
    }
    continuing {
      x = (x + 1u);
    }
  }`), true);
  assert.equal(body(`  switch(a) {
    case 1u: {
      x = 3u;
    }
    default: {
    }
  }`), true);
});

test('a loop keeps its last block, which forgets what a continue may have skipped', () => {
  const out = inside(run('const N : u32 = 1u;', 'var<private> a : u32;',
    main(`  var x : u32;
  var i : u32;
  x = 0u;
  i = 0u;
  loop {
    if ((i < a)) {
      if ((a == 5u)) {
        continue;
      }
      x = 1u;
      continue;
    } else {
      break;
    }

    continuing {
      if ((x == 1u)) {
        a = 2u;
      }
      i = (i + 1u);
    }
  }`)));
  for (const line of ['continuing {', 'if ((x == 1u)) {', 'if ((i < a)) {'])
    assert.ok(out.includes(line), out.join('\n'));
});

test('a variable outside of the function is never taken for known', () => {
  const out = inside(run('var<private> a : u32;', `fn change() {
  a = 2u;
}`,
    main(`  a = 1u;
  change();
  if ((a == 1u)) {
    a = 3u;
  }`)));
  assert.ok(out.includes('if ((a == 1u)) {'));
});
