// Small matrices and steps of recurrent layers.
import { test } from 'node:test';
import { close, open, random, range } from './harness.mjs';

const sum = (x) => x.reduce((a, b) => a + b, 0);
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

test('small_matrix: solve, determinant, Cholesky', async () => {
  const gpu = await open(),
    n = 12,
    groups = 2,
    columns = 3,
    a = random(groups * n * n),
    x = random(groups * n * columns, -1, 1, 2);
  const at = (g, i, j) => a[(g * n + i) * n + j],
    b = range(groups * n * columns).map((e) => {
      const c = e % columns,
        i = Math.floor(e / columns) % n,
        g = Math.floor(e / columns / n);
      return sum(range(n).map((k) => at(g, i, k) * x[(g * n + k) * columns + c]));
    });
  const y = gpu.empty('f32', x.length),
    args = { a: gpu.f32(a), b: gpu.f32(b), y, groups, n, columns, tile: columns, tiles: 1 };
  await gpu.run('small_matrix', { spec: { MODE: 1 }, args, groups: [groups] });
  close(await gpu.read(y), x, 1e-3, 1e-3);

  const det = (m) => {
    if (m.length === 1) return m[0][0];
    const p = m.reduce((best, row, i) => (Math.abs(row[0]) > Math.abs(m[best][0]) ? i : best), 0),
      rest = m.filter((_, i) => i !== p);
    return (
      (p % 2 ? -1 : 1) *
      m[p][0] *
      det(rest.map((row) => row.slice(1).map((v, j) => v - (row[0] / m[p][0]) * m[p][j + 1])))
    );
  };
  const d = gpu.empty('f32', groups);
  await gpu.run('small_matrix', {
    spec: { MODE: 2 },
    args: { a: args.a, y: d, groups, n, tile: 1, tiles: 1 },
    groups: [groups],
  });
  close(
    await gpu.read(d),
    range(groups).map((g) => det(range(n).map((i) => range(n).map((j) => at(g, i, j))))),
    1e-3,
    1e-5,
  );

  const spd = range(groups * n * n).map((e) => {
    const j = e % n,
      i = Math.floor(e / n) % n,
      g = Math.floor(e / n / n);
    return sum(range(n).map((k) => at(g, i, k) * at(g, j, k))) + (i === j ? 1 : 0);
  });
  const l = gpu.empty('f32', spd.length);
  await gpu.run('small_matrix', {
    spec: { MODE: 5 },
    args: { a: gpu.f32(spd), y: l, groups, n, tile: 1, tiles: 1 },
    groups: [groups],
  });
  const lower = await gpu.read(l);
  close(
    range(spd.length).map((e) => {
      const j = e % n,
        i = Math.floor(e / n) % n,
        g = Math.floor(e / n / n);
      return sum(range(n).map((k) => lower[(g * n + i) * n + k] * lower[(g * n + j) * n + k]));
    }),
    spd,
    1e-4,
    1e-4,
  );
});

test('recurrent: a step of an lstm, and what is kept of it', async () => {
  const gpu = await open(),
    rows = 5,
    units = 7,
    count = rows * units,
    gates = random(4 * count, -2, 2),
    gemm_result = random(4 * count, -2, 2, 2),
    before = random(count, -1, 1, 3);
  const state = gpu.empty('f32', count),
    cell = gpu.empty('f32', count),
    saved = gpu.empty('f32', 4 * count);
  await gpu.run('recurrent_forward', {
    args: {
      gates: gpu.f32(gates),
      gemm_result: gpu.f32(gemm_result),
      state_before: gpu.f32(before),
      cell_before: gpu.f32(before),
      state,
      cell,
      saved,
      count,
      units,
      keeps: 1,
    },
  });
  const gate = (i, k) => {
    const at = Math.floor(i / units) * 4 * units + k * units + (i % units);
    return gates[at] + gemm_result[at];
  };
  const c = range(count).map((i) => sigmoid(gate(i, 1)) * before[i] + sigmoid(gate(i, 0)) * Math.tanh(gate(i, 2)));
  close(await gpu.read(cell), c, 1e-5, 2e-6);
  close(
    await gpu.read(state),
    c.map((v, i) => sigmoid(gate(i, 3)) * Math.tanh(v)),
    1e-5,
    2e-6,
  );
});
