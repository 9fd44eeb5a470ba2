// Kernels that work on rows: reductions, softmax, norms, losses, scans.
import { test } from 'node:test';
import { close, from_bf16, open, random, range, to_bf16 } from './harness.mjs';

const rows_of = (values, n) => range(values.length / n).map((r) => values.slice(r * n, (r + 1) * n));
const sum = (x) => x.reduce((a, b) => a + b, 0);
const softmax = (row) => {
  const most = Math.max(...row),
    e = row.map((x) => Math.exp(x - most)),
    all = sum(e);
  return e.map((x) => x / all);
};

const KINDS = {
  sum,
  mean: (x) => sum(x) / x.length,
  prod: (x) => x.reduce((a, b) => a * b, 1),
  max: (x) => Math.max(...x),
  min: (x) => Math.min(...x),
  argmax: (x) => x.indexOf(Math.max(...x)),
  argmin: (x) => x.indexOf(Math.min(...x)),
  logsumexp: (x) => Math.log(sum(x.map(Math.exp))),
  var: (x) => sum(x.map((v) => (v - sum(x) / x.length) ** 2)) / x.length,
};
Object.entries(KINDS).forEach(([name, f], kind) =>
  test(`reduce ${name}, f32`, async () => {
    const gpu = await open(),
      n = 300,
      outputs = 7,
      x = random(n * outputs, name === 'prod' ? 0.95 : -1, name === 'prod' ? 1.05 : 1);
    const arg = name.startsWith('arg'),
      y = gpu.empty(arg ? 'i64' : 'f32', outputs);
    await gpu.run('reduce_float', {
      spec: [kind, 1, 1, 64, 0, 0, 0, 1],
      args: {
        x: gpu.f32(x),
        y,
        outputs,
        count: n,
        chunk_length: n,
        groups: 2,
        kept_inner: outputs,
        reduced_inner: n,
        kept_strides: [0, n],
        reduced_strides: [0, 1],
        divisor: n,
        chunks: 1,
      },
      groups: [2],
    });
    close(await gpu.read(y), rows_of(x, n).map(f), 1e-5, 1e-6);
  }),
);

test('reduce in vectors, in chunks whose states a second dispatch merges', async () => {
  const gpu = await open(),
    n = 4096,
    x = random(n, 2, 5),
    states = gpu.empty('f32', 4 * 4),
    y = gpu.empty('f32', 1);
  const common = {
    outputs: 1,
    groups: 1,
    kept_inner: 1,
    reduced_inner: n,
    kept_strides: [0, n],
    reduced_strides: [0, 1],
    divisor: n,
  };
  await gpu.run('reduce_float', {
    spec: [8, 1, 1, 256, 0, 0, 1, 4],
    args: { ...common, x: gpu.f32(x), y: states, count: n, chunk_length: n / 4, chunks: 4 },
    groups: [4],
  });
  await gpu.run('reduce_float', {
    spec: [8, 1, 1, 256, 0, 1, 0, 1],
    args: { ...common, x: states, y, count: 4, chunk_length: 4, chunks: 1 },
    groups: [1],
  });
  close(await gpu.read(y), [KINDS.var(x)], 1e-5);
});

test('reduce_int: the largest of i32', async () => {
  const gpu = await open(),
    x = random(500, -1e9, 1e9).map(Math.floor),
    y = gpu.empty('i32', 1);
  await gpu.run('reduce_int', {
    spec: [3, 5, 5, 256, 0, 0, 0, 1],
    args: {
      x: gpu.i32(x),
      y,
      outputs: 1,
      count: 500,
      chunk_length: 500,
      groups: 1,
      kept_inner: 1,
      reduced_inner: 500,
      kept_strides: [0, 500],
      reduced_strides: [0, 1],
      chunks: 1,
    },
  });
  close(await gpu.read(y), [Math.max(...x)], 0, 0);
});

test('column_sums', async () => {
  const gpu = await open(),
    rows = 90,
    columns = 256,
    x = random(rows * columns),
    y = gpu.empty('f32', columns);
  await gpu.run('column_sums', {
    args: { x: gpu.f32(x), y, rows, columns, stride: columns, chunk_length: rows, groups: 2, chunks: 1 },
    groups: [2],
  });
  close(
    await gpu.read(y),
    range(columns).map((c) => sum(range(rows).map((r) => x[r * columns + c]))),
    1e-5,
    1e-5,
  );
});

for (const [op, name] of ['softmax', 'log_softmax', 'softmax_backward', 'log_softmax_backward'].entries()) {
  for (const [how, threads, per_thread, vector, n] of [
    ['scalars', 16, 4, 0, 50],
    ['vectors', 16, 8, 1, 128],
    ['long', 256, 0, 0, 3000],
  ]) {
    test(`${name}, ${how}`, async () => {
      const gpu = await open(),
        rows = 9,
        x = random(rows * n, -4, 4),
        g = random(rows * n, -1, 1, 2);
      const forward = rows_of(x, n).map(softmax),
        y = gpu.empty('f32', rows * n),
        logs = forward.map((r) => r.map(Math.log));
      const backward = op >= 2,
        saved = op === 2 ? forward : logs;
      const args = {
        a: gpu.f32(backward ? g : x),
        b: gpu.f32(saved.flat()),
        y,
        rows,
        n,
        inner: 1,
        a_strides: [n, 0, 1],
        b_strides: [n, 0, 1],
        y_strides: [n, 0, 1],
      };
      await gpu.run('softmax', {
        spec: [threads, 0, op, per_thread, 1, 1, 1, vector],
        args,
        groups: [Math.ceil((rows * threads) / 256)],
      });
      const expected = [
        forward,
        logs,
        forward.map((s, r) => s.map((v, i) => v * (g[r * n + i] - sum(s.map((w, k) => w * g[r * n + k]))))),
        forward.map((s, r) => s.map((v, i) => g[r * n + i] - v * sum(g.slice(r * n, (r + 1) * n)))),
      ][op];
      close(await gpu.read(y), expected.flat(), 1e-5, 3e-6);
    });
  }
}

test('softmax, f16 in and bf16 out', async () => {
  const gpu = await open(),
    rows = 5,
    n = 33,
    x = random(rows * n, -4, 4).map((v) => from_bf16(to_bf16(v)));
  const y = gpu.empty('bf16', rows * n);
  await gpu.run('softmax', {
    spec: [16, 0, 0, 4, 3, 1, 3],
    groups: [1],
    args: { a: gpu.tensor('bf16', x), y, rows, n, inner: 1, a_strides: [n, 0, 1], y_strides: [n, 0, 1] },
  });
  close(await gpu.read(y), rows_of(x, n).flatMap(softmax), 0.005, 1e-5);
});

const normed = (row, rms, eps = 1e-5) => {
  const mean = rms ? 0 : sum(row) / row.length,
    scale = 1 / Math.sqrt(sum(row.map((v) => (v - mean) ** 2)) / row.length + eps);
  return { mean, scale, n: row.map((v) => (v - mean) * scale) };
};
for (const rms of [0, 1]) {
  for (const [how, threads, per_thread, vector, n] of [
    ['scalars', 32, 3, 0, 90],
    ['vectors', 16, 8, 1, 128],
    ['long', 256, 0, 0, 2500],
  ]) {
    test(`${rms ? 'rms_norm' : 'layer_norm'}, ${how}`, async () => {
      const gpu = await open(),
        rows = 11,
        x = random(rows * n, 1, 3),
        w = random(n, -1, 1, 2),
        b = random(n, -1, 1, 3);
      const y = gpu.empty('f32', rows * n);
      await gpu.run('norm', {
        spec: [threads, 0, rms, per_thread, 1, 1, 1, 3, 1, 1, vector],
        args: {
          x: gpu.f32(x),
          w: gpu.f32(w),
          b: gpu.f32(b),
          y,
          rows,
          n,
          x_strides: [n, 1],
          w_stride: 1,
          b_stride: 1,
          eps: 1e-5,
        },
        groups: [Math.ceil((rows * threads) / 256)],
      });
      close(
        await gpu.read(y),
        rows_of(x, n).flatMap((r) => normed(r, rms).n.map((v, i) => v * w[i] + b[i])),
        1e-5,
        5e-6,
      );
    });
  }
}

test('norm_backward and norm_lines', async () => {
  const gpu = await open(),
    rows = 13,
    n = 64,
    x = random(rows * n, 1, 3),
    g = random(rows * n, -1, 1, 2),
    w = random(n, -1, 1, 3);
  const dx = gpu.empty('f32', rows * n),
    groups = 2,
    partial_weight = gpu.empty('f32', groups * n);
  const partial_bias = gpu.empty('f32', groups * n),
    weight = gpu.empty('f32', n),
    bias = gpu.empty('f32', n);
  const spec = { THREADS_PER_ROW: 16, RMS: 0, ELEMENTS_PER_THREAD: 4, VECTOR: 1, GIVEN: 1, WANTS: 3 };
  await gpu.run('norm_backward', {
    spec,
    args: {
      g: gpu.f32(g),
      x: gpu.f32(x),
      w: gpu.f32(w),
      dx,
      partial_weight,
      partial_bias,
      rows,
      n,
      groups,
      g_strides: [n, 1],
      x_strides: [n, 1],
      w_stride: 1,
      eps: 1e-5,
    },
    groups: [groups],
  });
  await gpu.run('norm_lines', {
    args: { partial_weight, partial_bias, weight, bias, lines: groups, n },
    groups: [n / 8, 1, 2],
  });
  const r = rows_of(x, n).map((row) => normed(row, 0));
  close(
    await gpu.read(dx),
    r.flatMap(({ n: y, scale }, k) => {
      const s = w.map((v, i) => v * g[k * n + i]),
        mean = sum(s) / n,
        along = sum(s.map((v, i) => v * y[i])) / n;
      return s.map((v, i) => (v - mean - y[i] * along) * scale);
    }),
    1e-4,
    1e-5,
  );
  close(
    await gpu.read(weight),
    range(n).map((i) => sum(r.map(({ n: y }, k) => y[i] * g[k * n + i]))),
    1e-4,
    1e-5,
  );
  close(
    await gpu.read(bias),
    range(n).map((i) => sum(range(rows).map((k) => g[k * n + i]))),
    1e-4,
    1e-5,
  );
});

test('cross_entropy, its mean and its gradient; a wrong target is reported', async () => {
  const gpu = await open(),
    rows = 6,
    classes = 200,
    x = random(rows * classes, -3, 3),
    target = [3, 199, 0, -100, 77, 5];
  const losses = gpu.empty('f32', rows),
    logsumexp = gpu.empty('f32', rows),
    loss = gpu.empty('f32', 1),
    count = gpu.empty('f32', 1);
  const index_errors = gpu.zeros('u32', 4),
    dlogits = gpu.empty('f32', rows * classes);
  const args = {
    logits: gpu.f32(x),
    target: gpu.tensor('i64', target),
    losses,
    logsumexp,
    loss,
    count,
    index_errors,
    ignore_index: [-100, -1],
    rows,
    classes,
    stride: classes,
    gradient: gpu.f32([1]),
    dlogits,
  };
  await gpu.run('cross_entropy', { spec: [1, 4, 1], args, groups: [rows] });
  await gpu.run('cross_entropy_reduce', { spec: [1, 4, 1], args });
  await gpu.run('cross_entropy_backward', { spec: [1, 4, 1], args, groups: [rows] });
  const p = rows_of(x, classes).map(softmax),
    counted = target.map((t) => t >= 0),
    n = counted.filter(Boolean).length;
  const expected = sum(p.map((r, k) => (counted[k] ? -Math.log(r[target[k]]) : 0))) / n;
  close(await gpu.read(loss), [expected], 1e-5);
  close(
    await gpu.read(dlogits),
    p.flatMap((r, k) => r.map((v, i) => (counted[k] ? (v - (i === target[k])) / n : 0))),
    1e-4,
    1e-7,
  );
  close(await gpu.read(index_errors), [0, 0, 0, 0], 0, 0);
  await gpu.run('cross_entropy', {
    spec: [1, 4, 1],
    args: { ...args, target: gpu.tensor('i64', [3, 9, 500, 1, 2, 3]) },
    groups: [rows],
  });
  close(await gpu.read(index_errors), [3, 500, 0, 200], 0, 0);
});

test('scan of f32 and accumulate', async () => {
  const gpu = await open(),
    rows = 4,
    n = 700,
    x = random(rows * n),
    y = gpu.empty('f32', rows * n);
  await gpu.run('scan_float', {
    args: { x: gpu.f32(x), y, rows, n, inner: 1, x_strides: [n, 0, 1], y_strides: [n, 0, 1] },
    groups: [rows],
  });
  const expected = rows_of(x, n).flatMap((r) => {
    let s = 0;
    return r.map((v) => (s += v));
  });
  close(await gpu.read(y), expected, 1e-4, 1e-4);
});

test('search_rows', async () => {
  const gpu = await open(),
    n = 100,
    sorted = random(n, 0, 1).sort((a, b) => a - b),
    values = random(50, -0.1, 1.1, 2);
  const y = gpu.empty('i64', 50);
  await gpu.run('search_rows', {
    args: { sorted: gpu.f32(sorted), values: gpu.f32(values), y, count: 50, n, per_row: 50 },
  });
  close(
    await gpu.read(y),
    values.map((v) => sorted.filter((s) => s < v).length),
    0,
    0,
  );
});
