// Every row of elementwise.def that takes integers, on i64 as pairs of words, against BigInt.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { DTYPE, open, ROWS } from './harness.mjs';

const wrap = (x) => BigInt.asIntN(64, x),
  truth = (x) => (x ? 1n : 0n),
  size = (x) => (x < 0n ? wrap(-x) : x);
const quotient = (a, b) => (b === 0n ? 0n : wrap(a / b)),
  fmod = (a, b) => wrap(a - quotient(a, b) * b),
  crosses = (r, b) => b !== 0n && r !== 0n && r < 0n !== b < 0n;
const gcd = (a, b) => (b === 0n ? size(a) : gcd(b, fmod(a, b)));
function power(a, b) {
  if (b < 0n) return a === 1n ? 1n : a === -1n ? (b & 1n ? -1n : 1n) : 0n;
  let result = 1n;
  for (let left = b; left > 0n; left >>= 1n, a = wrap(a * a)) if (left & 1n) result = wrap(result * a);
  return result;
}
const WANTED = {
  neg: (a) => -a,
  abs: size,
  sign: (a) => (a > 0n ? 1n : a < 0n ? -1n : 0n),
  square: (a) => a * a,
  relu: (a) => (a > 0n ? a : 0n),
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  pow: power,
  minimum: (a, b) => (a < b ? a : b),
  maximum: (a, b) => (a > b ? a : b),
  clamp_min: (a, b) => (a < b ? b : a),
  clamp_max: (a, b) => (a > b ? b : a),
  fmin: (a, b) => (a < b ? a : b),
  fmax: (a, b) => (a > b ? a : b),
  add_scaled: (a, b, c) => a + b * c,
  where: (a, b, c) => (a !== 0n ? b : c),
  floor: (a) => a,
  ceil: (a) => a,
  round: (a) => a,
  trunc: (a) => a,
  frac: () => 0n,
  fmod,
  remainder: (a, b) => (crosses(fmod(a, b), b) ? fmod(a, b) + b : fmod(a, b)),
  floor_divide: (a, b) => (crosses(fmod(a, b), b) ? quotient(a, b) - 1n : quotient(a, b)),
  bitwise_and: (a, b) => a & b,
  bitwise_or: (a, b) => a | b,
  bitwise_xor: (a, b) => a ^ b,
  bitwise_not: (a) => ~a,
  bitwise_left_shift: (a, b) => (b < 0n || b > 63n ? 0n : a << b),
  bitwise_right_shift: (a, b) => a >> (b < 0n || b > 63n ? 63n : b),
  gcd,
  lcm: (a, b) => size(wrap(quotient(a, gcd(a, b)) * b)),
  heaviside: (a, b) => (a === 0n ? b : truth(a > 0n)),
  isinf: () => 0n,
  isnan: () => 0n,
  isfinite: () => 1n,
  signbit: (a) => truth(a < 0n),
  relu6: (a) => (a < 0n ? 0n : a > 6n ? 6n : a),
  relu_backward: (a, b) => (b > 0n ? a : 0n),
  eq: (a, b) => truth(a === b),
  ne: (a, b) => truth(a !== b),
  lt: (a, b) => truth(a < b),
  le: (a, b) => truth(a <= b),
  gt: (a, b) => truth(a > b),
  ge: (a, b) => truth(a >= b),
  logical_not: (a) => truth(a === 0n),
  logical_and: (a, b) => truth(a !== 0n && b !== 0n),
  logical_or: (a, b) => truth(a !== 0n || b !== 0n),
  logical_xor: (a, b) => truth((a !== 0n) !== (b !== 0n)),
};

// Around every edge of a word and of a sign, with each other.
const EDGES = [0n, 1n, 2n, 5n, 7n, 31n, 32n, 33n, 63n, 64n, 0x7fffffffn, 0x80000000n, 0xffffffffn, 0x100000000n,
  0x1234567890abn, 0x7fffffffffffffffn].flatMap((v) => [v, -v]).concat([wrap(1n << 63n)]);
const a = EDGES.flatMap((v) => EDGES.map(() => v)),
  b = EDGES.flatMap(() => EDGES),
  c = b.map((v, i) => b[(i * 7 + 3) % b.length]);

test('every row that takes integers is tested', () => {
  const integer = ROWS.filter(({ result }) => result !== 'real').map(({ name }) => name);
  assert.deepEqual(Object.keys(WANTED).sort(), integer.sort());
});

for (const { row, name, arity, result } of ROWS.filter((one) => WANTED[one.name])) {
  test(`${name} of pairs of words`, async () => {
    const gpu = await open(),
      type = result === 'truth' ? 'bool' : 'i64',
      y = gpu.empty(type, a.length);
    const args = { y, a: gpu.tensor('i64', a), b: gpu.tensor('i64', b), c: gpu.tensor('i64', c), n: a.length };
    await gpu.run('elementwise_pairs', {
      spec: [row, 0, 0, DTYPE[type], DTYPE.i64, DTYPE.i64, DTYPE.i64, arity],
      args,
      groups: [Math.ceil(a.length / 1024)],
    });
    const got = await gpu.read(y);
    a.forEach((v, i) => {
      const wanted = wrap(WANTED[name](v, b[i], c[i]));
      assert.equal(BigInt(got[i]), wanted, `${name}(${v}, ${b[i]}, ${c[i]})`);
    });
  });
}

test('pairs load what is narrower with its sign, and store its lower bits or whether it is anything', async () => {
  const gpu = await open(),
    values = [-128, -1, 0, 1, 127],
    cast = async (from, to, list) => {
      const y = gpu.empty(to, list.length);
      const spec = [9999, 0, 0, DTYPE[to], DTYPE[from], 0, 0, 1];
      await gpu.run('elementwise_pairs', { spec, args: { y, a: gpu.tensor(from, list), n: list.length } });
      return [...(await gpu.read(y))].map(Number);
    };
  assert.deepEqual(await cast('i8', 'i64', values), values);
  assert.deepEqual(await cast('i32', 'i64', [-2147483648, 2147483647]), [-2147483648, 2147483647]);
  assert.deepEqual(await cast('u8', 'i64', [0, 255]), [0, 255]);
  assert.deepEqual(await cast('i64', 'i32', [4294967297, -1]), [1, -1]);
  assert.deepEqual(await cast('i64', 'bool', [4294967296, 0, -1]), [1, 0, 1]);
});
