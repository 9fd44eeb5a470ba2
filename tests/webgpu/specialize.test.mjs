// What specialize() leaves out of a kernel and what it must keep. Texts look as tint writes them.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { evaluate, parse_declaration, specialize } from '../../shaders/webgpu/specialize.mjs';

const lines = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean);
const run = (...texts) => lines(specialize(texts.map(parse_declaration)));
const main = (body) => `@compute @workgroup_size(1u, 1u, 1u)\nfn main() {\n${body}\n}`;
const inside = (out) => out.slice(out.indexOf('fn main() {') + 1, -1);
const value = (text, known = {}) =>
  evaluate(text, new Map(Object.entries(known).map(([name, v]) => [name, { type: typeof v === 'boolean' ? 'bool' : 'u32', value: v }])))?.value;

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
  const out = run('const N : u32 = 2u;', 'var<private> a : u32;', 'var<private> b : u32;', 'fn unused() {\n  b = 1u;\n}',
    main('  var x : u32;\n  var y : u32;\n  if ((N == 2u)) {\n    a = 5u;\n  } else {\n    unused();\n    y = b;\n  }'));
  assert.deepEqual(out, ['var<private> a : u32;', '@compute @workgroup_size(1u, 1u, 1u)', 'fn main() {', '{', 'a = 5u;', '}', '}']);
});

test('else if, and a branch that is not known', () => {
  const out = run('const N : u32 = 2u;', 'var<private> a : u32;',
    main('  if ((a == 1u)) {\n    a = 1u;\n  } else if ((N == 1u)) {\n    a = 2u;\n  } else {\n    a = 3u;\n  }'));
  assert.deepEqual(inside(out), ['if ((a == 1u)) {', 'a = 1u;', '} else {', '{', 'a = 3u;', '}', '}']);
});

test('of a switch the case stays, by several labels or by default, without its break', () => {
  const body = (n) => inside(run(`const N : u32 = ${n}u;`, 'var<private> a : u32;',
    main('  switch(N) {\n    case 1u, 2u: {\n      a = 12u;\n      break;\n    }\n    default: {\n      a = 9u;\n    }\n  }')));
  assert.deepEqual(body(2), ['{', 'a = 12u;', '}']);
  assert.deepEqual(body(7), ['{', 'a = 9u;', '}']);
});

test('a break in the middle of a case leaves the switch, and forgets what it may have skipped', () => {
  const out = inside(run('const N : u32 = 1u;', 'var<private> a : u32;', 'var<private> r : u32;',
    main(`  var x : u32;\n  x = 1u;\n  switch(N) {\n    default: {\n      if ((a == 0u)) {\n        break;\n      }
      x = 2u;\n    }\n  }\n  if ((x == 1u)) {\n    r = 1u;\n  }`)));
  assert.ok(out.includes('switch(0u) {'));
  assert.ok(out.includes('if ((x == 1u)) {'), out.join('\n'));
});

test('functions are copied for numbers that decide something, not for others', () => {
  const out = run('var<private> a : u32;', 'const D : u32 = 1u;',
    'fn load(i : u32, dtype : u32) -> u32 {\n  switch(dtype) {\n    case 1u: {\n      return i;\n    }\n    default: {\n      return 0u;\n    }\n  }\n  return u32();\n}',
    'fn pair(i : u32, dtype : u32) -> u32 {\n  let d = dtype;\n  return (load(i, d) + load((i + 1u), d));\n}',
    main('  a = pair(3u, D);\n  a = pair(4u, D);\n  a = pair(5u, 2u);\n  a = load(1u, a);'));
  const text = out.join('\n');
  assert.equal(out.filter((line) => line.startsWith('fn pair')).length, 2, text);
  assert.equal(out.filter((line) => line.startsWith('fn load')).length, 3, text);
  assert.ok(!text.includes('return u32();'), 'what stands behind the end of a function');
  assert.equal(out.filter((line) => line.startsWith('switch')).length, 1, text);
});

test('variables are known until something may change them', () => {
  const body = (text) => inside(run('var<private> a : u32;', 'fn set(p : ptr<function, u32>) {\n  *(p) = 7u;\n}',
    main(`  var x : u32;\n  x = 1u;\n${text}\n  if ((x == 1u)) {\n    a = 1u;\n  }`))).includes('if ((x == 1u)) {');
  assert.equal(body(''), false);
  assert.equal(body('  set(&(x));'), true);
  assert.equal(body('  x = a;'), true);
  assert.equal(body('  x += 1u;'), true);
  assert.equal(body('  if ((a == 1u)) {\n    x = 2u;\n  }'), true);
  assert.equal(body('  loop {\n    if ((x < a)) {\n      break;\n    }\n    continuing {\n      x = (x + 1u);\n    }\n  }'), true);
  assert.equal(body('  switch(a) {\n    case 1u: {\n      x = 3u;\n    }\n    default: {\n    }\n  }'), true);
});

test('a loop keeps its last block, which forgets what a continue may have skipped', () => {
  const out = inside(run('const N : u32 = 1u;', 'var<private> a : u32;',
    main(`  var x : u32;\n  var i : u32;\n  x = 0u;\n  i = 0u;\n  loop {\n    if ((i < a)) {\n      if ((a == 5u)) {
        continue;\n      }\n      x = 1u;\n      continue;\n    } else {\n      break;\n    }\n\n    continuing {
      if ((x == 1u)) {\n        a = 2u;\n      }\n      i = (i + 1u);\n    }\n  }`)));
  assert.ok(out.includes('continuing {') && out.includes('if ((x == 1u)) {') && out.includes('if ((i < a)) {'), out.join('\n'));
});

test('a variable outside of the function is never taken for known', () => {
  const out = inside(run('var<private> a : u32;', 'fn change() {\n  a = 2u;\n}',
    main('  a = 1u;\n  change();\n  if ((a == 1u)) {\n    a = 3u;\n  }')));
  assert.ok(out.includes('if ((a == 1u)) {'));
});
