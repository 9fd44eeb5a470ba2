import { test } from 'node:test';
import { close, DTYPE, from_bf16, from_f16, open, random, range, ROWS, to_bf16, to_f16 } from './harness.mjs';

// The numbers of the rows of elementwise.def.
const OPS = Object.fromEntries(ROWS.map(({ name, row }) => [name, row]));

const erf = (x) => {
  let sum = x,
    term = x;
  for (let n = 1; n < 200; ++n) sum += (term *= (-x * x) / n) / (2 * n + 1);
  return Math.abs(x) > 5 ? Math.sign(x) : (2 / Math.sqrt(Math.PI)) * sum;
};
const FUNCTIONS = {
  neg: (a) => -a,
  abs: Math.abs,
  square: (a) => a * a,
  relu: (a) => Math.max(a, 0),
  exp: Math.exp,
  sin: Math.sin,
  cos: Math.cos,
  tanh: Math.tanh,
  sigmoid: (a) => 1 / (1 + Math.exp(-a)),
  silu: (a) => a / (1 + Math.exp(-a)),
  gelu: (a) => 0.5 * a * (1 + erf(a / Math.SQRT2)),
  erf,
  softplus: (a) => Math.log1p(Math.exp(a)),
  floor: Math.floor,
  expm1: Math.expm1,
  atan: Math.atan,
  add: (a, b) => a + b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  maximum: (a, b) => Math.max(a, b),
  add_scaled: (a, b, c) => a + b * c,
  where: (a, b, c) => (a !== 0 ? b : c),
};

for (const [op, f] of Object.entries(FUNCTIONS)) {
  test(`elementwise ${op}, f32`, async () => {
    const gpu = await open(),
      n = 1501,
      arity = f.length;
    const [a, b, c] = [1, 2, 3].map((seed) => random(n, -3, 3, seed));
    const y = gpu.empty('f32', n);
    await gpu.run('elementwise_float', {
      spec: [OPS[op], 0, 0, 1, 1, 1, 1, arity],
      args: { y, a: gpu.f32(a), b: gpu.f32(b), c: gpu.f32(c), n },
      groups: [2],
    });
    close(
      await gpu.read(y),
      a.map((v, i) => f(v, b[i], c[i])),
      4e-6,
      2e-6,
    );
  });
}

test('elementwise keeps infinities and NaN', async () => {
  const gpu = await open(),
    a = [Infinity, -Infinity, NaN, 0, -0, 1e38, 1e-40, -3],
    y = gpu.empty('f32', 8);
  await gpu.run('elementwise_float', { spec: [OPS.relu, 0, 0, 1, 1, 1, 1, 1], args: { y, a: gpu.f32(a), n: 8 } });
  close((await gpu.read(y)).slice(0, 6), [Infinity, 0, NaN, 0, 0, 1e38], 1e-6);
});

for (const [dtype, round] of [
  ['f16', (x) => from_f16(to_f16(x))],
  ['bf16', (x) => from_bf16(to_bf16(x))],
]) {
  test(`elementwise ${dtype} rounds to nearest even; neighbours share words`, async () => {
    const gpu = await open(),
      n = 1027,
      a = random(n, -70, 70).map(round),
      b = random(n, -2, 2, 2).map(round);
    const y = gpu.empty(dtype, n),
      t = DTYPE[dtype];
    await gpu.run('elementwise_float', {
      spec: [OPS.mul, 0, 0, t, t, t, 1, 2],
      args: { y, a: gpu.tensor(dtype, a), b: gpu.tensor(dtype, b), n },
      groups: [2],
    });
    close(
      await gpu.read(y),
      a.map((v, i) => round(Math.fround(v * b[i]))),
      0,
      0,
    );
  });
}

for (const skew of [0, 1, 3]) {
  test(`casts to u8 and i8 at any byte (${skew})`, async () => {
    const gpu = await open(),
      n = 517,
      a = random(n, 0, 127).map(Math.floor);
    for (const dtype of ['u8', 'i8']) {
      const y = gpu.empty(dtype, n, { skew });
      await gpu.run('elementwise_float', {
        spec: [999, 0, 0, DTYPE[dtype], 1, 1, 1, 1],
        args: { y, a: gpu.f32(a), n },
      });
      close(await gpu.read(y), a, 0, 0);
      const back = gpu.empty('i32', n);
      await gpu.run('elementwise_int', {
        spec: [OPS.neg, 0, 0, 5, DTYPE[dtype], 1, 1, 1],
        args: { y: back, a: y, n },
      });
      close(
        await gpu.read(back),
        a.map((v) => -v),
        0,
        0,
      );
    }
  });
}

test('elementwise in runs of four, strided and broadcast', async () => {
  const gpu = await open(),
    rows = 37,
    columns = 64,
    n = rows * columns,
    a = random(n),
    b = random(columns, -1, 1, 2);
  const y = gpu.empty('f32', n);
  await gpu.run('elementwise_float', {
    spec: [OPS.add, 2, 0, 1, 1, 1, 1, 2, 2],
    args: {
      y,
      a: gpu.f32(a),
      b: gpu.f32(b),
      n,
      sizes: [1, rows, columns],
      y_strides: [0, 0, columns, 1],
      a_strides: [0, 0, columns, 1],
      b_strides: [0, 0, 0, 1],
    },
    groups: [2],
  });
  close(
    await gpu.read(y),
    a.map((v, i) => v + b[i % columns]),
  );
});

test('elementwise in a heap of three segments', async () => {
  const gpu = await open({ segments: 3, bytes: 1 << 20 }),
    n = 300,
    a = random(n),
    b = random(n, -1, 1, 2);
  const y = gpu.empty('bf16', n);
  await gpu.run('elementwise_float', {
    spec: [OPS.add, 0, 0, 3, 1, 1, 1, 2],
    args: { y, a: gpu.f32(a), b: gpu.f32(b), n },
  });
  close(
    await gpu.read(y),
    a.map((v, i) => from_bf16(to_bf16(Math.fround(v + b[i])))),
    0,
    0,
  );
});

test('elementwise_transposed', async () => {
  const gpu = await open(),
    rows = 45,
    columns = 70,
    a = random(rows * columns),
    y = gpu.empty('f32', rows * columns);
  const groups = Math.ceil(rows / 64) * Math.ceil(columns / 64);
  // y [rows, columns] = -a.T, with a [columns, rows].
  await gpu.run('elementwise_transposed_float', {
    spec: [OPS.neg],
    args: {
      y,
      a: gpu.f32(a),
      rows,
      columns,
      groups,
      inner: 1,
      y_strides: [0, 0, columns, 1],
      a_strides: [0, 0, 1, rows],
    },
    groups: [groups],
  });
  close(
    await gpu.read(y),
    range(rows * columns).map((i) => -a[(i % columns) * rows + Math.floor(i / columns)]),
  );
});
