// Kernels of language models and of training that are parts of larger ops.
import { test } from 'node:test';
import { ACTIVATION, close, from_f16, kernels, open, random, range, to_f16 } from './harness.mjs';

const sum = (x) => x.reduce((a, b) => a + b, 0);
const integers = (n, end, seed) => random(n, 0, end, seed).map(Math.floor);

test('attention_rows', async () => {
  const gpu = await open(),
    heads = 2,
    queries = 10,
    size = 24,
    n = heads * queries * size,
    y = random(n),
    dy = random(n, -1, 1, 2);
  const rows = gpu.empty('f32', heads * queries),
    strides = [n, queries * size, size];
  await gpu.run('attention_rows', {
    args: {
      y: gpu.f32(y),
      dy: gpu.f32(dy),
      rows,
      y_strides: strides,
      dy_strides: strides,
      queries,
      heads,
      size,
      count: rows.length,
    },
    groups: [2],
  });
  close(
    await gpu.read(rows),
    range(rows.length).map((r) => sum(range(size).map((d) => y[r * size + d] * dy[r * size + d]))),
    1e-5,
    1e-6,
  );
});

test('batch_norm: sums, forward, gradient', async () => {
  const gpu = await open(),
    images = 6,
    channels = 3,
    run = 20,
    n = images * channels * run,
    x = random(n, 2, 5),
    g = random(n, -1, 1, 2),
    w = random(channels, 0.5, 2, 3);
  const mean = gpu.empty('f32', channels),
    second = gpu.empty('f32', channels),
    y = gpu.empty('f32', n),
    count = images * run;
  const common = { channels, run, count, chunk: count, groups: channels, chunks: 1 };
  await gpu.run('batch_norm_sums', { args: { ...common, x: gpu.f32(x), mean, second }, groups: [channels] });
  const of = (t, c) => t.filter((_, i) => Math.floor(i / run) % channels === c),
    m = range(channels).map((c) => sum(of(x, c)) / count);
  const v = range(channels).map((c) => sum(of(x, c).map((e) => (e - m[c]) ** 2)) / count),
    c_of = (i) => Math.floor(i / run) % channels;
  close(await gpu.read(mean), m, 1e-5);
  close(await gpu.read(second), v.map(Math.sqrt), 1e-4);
  const args = {
    x: gpu.f32(x),
    y,
    g: gpu.f32(g),
    mean,
    spread: second,
    weight: gpu.f32(w),
    n,
    channels,
    run,
    eps: 1e-5,
    inverse_count: 1 / count,
  };
  await gpu.run('batch_norm_apply', { spec: { HAS: 5 }, args }); // of a weight and the deviation
  const normed = x.map((e, i) => (e - m[c_of(i)]) / Math.sqrt(v[c_of(i)] + 1e-5));
  close(
    await gpu.read(y),
    normed.map((e, i) => e * w[c_of(i)]),
    1e-4,
    1e-5,
  );
  const sums = gpu.empty('f32', 2 * channels);
  await gpu.run('batch_norm_sums', {
    spec: { BACKWARD: 1 },
    args: { ...common, x: args.x, g: args.g, mean, second: sums },
    groups: [channels],
  });
  await gpu.run('batch_norm_apply', { spec: { HAS: 7, BACKWARD: 1 }, args: { ...args, sums } });
  const total = range(channels).map((c) => sum(of(g, c)) / count),
    along = range(channels).map(
      (c) =>
        sum(
          of(
            g.map((e, i) => e * normed[i]),
            c,
          ),
        ) / count,
    );
  close(
    await gpu.read(y),
    g.map((e, i) => ((e - total[c_of(i)] - normed[i] * along[c_of(i)]) * w[c_of(i)]) / Math.sqrt(v[c_of(i)] + 1e-5)),
    1e-3,
    1e-5,
  );
});

for (const [name, dtype, error] of [
  ['f32', 1, 1e-6],
  ['f16', 2, 1e-3],
  ['q8_0', 7, 0.012],
]) {
  test(`rotate_and_cache writes what cached_rows reads, ${name}`, async () => {
    const gpu = await open(),
      size = 32,
      heads = 2,
      kv_heads = 1,
      steps = 2,
      batch = 2,
      blocks = 3,
      positions = [5, 62],
      table = [2, 0, 1, -1],
      pairs = 16;
    const all = heads + 2 * kv_heads,
      x = random(batch * steps * all * size),
      frequencies = range(pairs).map((i) => 0.5 ** i),
      bytes = blocks * 64 * (name === 'q8_0' ? 34 : 128);
    const keys = gpu.zeros('u8', bytes),
      values = gpu.zeros('u8', bytes),
      q = gpu.empty('f32', batch * steps * heads * size);
    await gpu.run('rotate_and_cache', {
      spec: { CACHE_DTYPE: dtype },
      args: {
        qkv: gpu.f32(x),
        frequencies: gpu.f32(frequencies),
        table: gpu.i32(table),
        positions: gpu.i32(positions),
        q,
        keys,
        values,
        steps,
        heads,
        kv_heads,
        all,
        size,
        pairs,
        width: 2,
        blocks,
        magnitude: 1,
      },
      groups: [batch * steps * all],
    });
    const row = (b, s, h) => x.slice(((b * steps + s) * all + h) * size).slice(0, size);
    const rotated = (r, position) =>
      r.map((_, e) => {
        const k = e % pairs,
          c = Math.cos(position * frequencies[k]),
          t = Math.sin(position * frequencies[k]);
        return e < pairs ? r[k] * c - r[k + pairs] * t : r[k + pairs] * c + r[k] * t;
      });
    close(
      await gpu.read(q),
      range(batch).flatMap((b) =>
        range(steps).flatMap((s) => range(heads).flatMap((h) => rotated(row(b, s, h), positions[b] + s))),
      ),
      1e-5,
      2e-6,
    );
    const y = gpu.empty('f32', batch * 64 * size);
    await gpu.run('cached_rows', {
      spec: { CACHE_DTYPE: dtype },
      args: {
        cache: keys,
        table: gpu.i32([2, 1]),
        y,
        quads: size / 4,
        all: (batch * 64 * size) / 4,
        steps: 64,
        heads: 1,
        size,
        width: 1,
        blocks,
      },
      groups: [Math.ceil((batch * 64 * size) / 1024)],
    });
    const read = await gpu.read(y);
    for (const [b, position] of [
      [0, 5],
      [0, 6],
      [1, 62],
      [1, 63],
    ]) {
      close(
        read.slice((b * 64 + position) * size, (b * 64 + position + 1) * size),
        rotated(row(b, position - positions[b], heads), position),
        error,
        error,
      );
    }
  });
}

test('take_order and combine_rows', async () => {
  const gpu = await open(),
    x = random(12),
    order = [3, 0, 2, 5, 4, 1],
    values = gpu.empty('f32', 6),
    indices = gpu.empty('i64', 6);
  await gpu.run('take_order', {
    args: { x: gpu.f32(x), order: gpu.i32(order), values, indices, count: 6, kept: 3, n: 6 },
  });
  close(
    await gpu.read(values),
    order.map((o, i) => x[(i < 3 ? 0 : 6) + o]),
    0,
    0,
  );
  close(await gpu.read(indices), order, 0, 0);
  const keys = [0, 0, 2, 2, 2, 3],
    width = 4,
    source = random(24),
    y = random(16, -1, 1, 2),
    at = gpu.f32(y);
  await gpu.run('combine_rows_float', {
    args: { y: at, source: gpu.f32(source), keys: gpu.i32(keys), order: gpu.i32(order), count: 6, width },
  });
  close(
    await gpu.read(at),
    y.map(
      (v, i) =>
        v +
        sum(
          range(6)
            .filter((k) => keys[k] === Math.floor(i / width))
            .map((k) => source[order[k] * width + (i % width)]),
        ),
    ),
    1e-5,
    1e-6,
  );
});

test('linear_cross_entropy: count, rows in place, total', async () => {
  const gpu = await open(),
    rows = 5,
    classes = 30,
    stride = 32,
    x = random(rows * stride, -3, 3),
    target = [3, -100, 29, 0, 7],
    logits = gpu.f32(x);
  const losses = gpu.empty('f32', rows),
    divisor = gpu.empty('f32', 2),
    loss = gpu.empty('f32', 1);
  const args = {
    logits,
    target: gpu.tensor('i64', target),
    losses,
    divisor,
    loss,
    ignore_index: [-100, -1],
    rows,
    classes,
    stride,
    factor: 0.5,
  };
  await gpu.run('linear_cross_entropy_count', { args });
  await gpu.run('linear_cross_entropy_narrow', { args, groups: [rows] });
  await gpu.run('linear_cross_entropy_total', { args });
  const p = range(rows).map((r) => {
    const e = x.slice(r * stride, r * stride + classes).map(Math.exp),
      all = sum(e);
    return e.map((v) => v / all);
  });
  close(await gpu.read(loss), [sum(p.map((r, k) => (target[k] < 0 ? 0 : -Math.log(r[target[k]])))) / 4], 1e-5);
  close(
    await gpu.read(logits),
    p.flatMap((r, k) =>
      range(stride).map((i) => (target[k] < 0 || i >= classes ? 0 : (r[i] - (i === target[k])) * 0.5)),
    ),
    1e-4,
    1e-6,
  );
});

test('narrow_scaled, normed_rows and quantized_gate', async () => {
  const gpu = await open(),
    n = 500,
    x = random(n, -1e6, 1e6),
    largest = gpu.empty('i32', 1),
    factor = gpu.empty('f32', 1),
    y = gpu.empty('f16', n),
    args = { x: gpu.f32(x), y, largest, factor, count: n, groups: 1 };
  await gpu.run('narrow_scaled_largest', { args });
  await gpu.run('narrow_scaled', { args });
  const scale = (await gpu.read(factor))[0];
  close(
    Array.from(await gpu.read(y), (v) => v * scale),
    x,
    1e-3,
    1,
  );
  const k = 40,
    rows = 3,
    z = random(rows * k),
    norm = random(k, 0.5, 2, 2),
    normed = gpu.empty('bf16', rows * k);
  await gpu.run('normed_rows', {
    spec: { DTYPE: 3, NORM_DTYPE: 1 },
    args: { x: gpu.f32(z), norm: gpu.f32(norm), y: normed, factor, rows, k, eps: 1e-5 },
    groups: [rows],
  });
  close(
    await gpu.read(normed),
    z.map(
      (v, i) =>
        (v * norm[i % k]) / Math.sqrt(sum(z.slice(i - (i % k), i - (i % k) + k).map((e) => e * e)) / k + 1e-5),
    ),
    0.005,
    1e-4,
  );
  const halves = random(2 * 6 * 2),
    gated = gpu.empty('f32', 12);
  await gpu.run('quantized_gate', {
    spec: { GATE: ACTIVATION.silu },
    args: { gate_and_up: gpu.f32(halves), y: gated, rows: 2, n: 6 },
  });
  close(
    await gpu.read(gated),
    range(12).map((i) => {
      const a = halves[Math.floor(i / 6) * 12 + (i % 6)];
      return (a / (1 + Math.exp(-a))) * halves[Math.floor(i / 6) * 12 + 6 + (i % 6)];
    }),
    1e-5,
    1e-6,
  );
});

test('gemm_norm: a product, a residual, their norm', async () => {
  const gpu = await open(),
    m = 11,
    n = 40,
    k = 24,
    a = random(m * k),
    b = random(k * n, -1, 1, 2),
    residual = random(m * n, -1, 1, 3),
    w = random(n, 0.5, 2, 4),
    shift = random(n, -1, 1, 5);
  const total = gpu.empty('f32', m * n),
    y = gpu.empty('f32', m * n);
  // The columns of b are its rows in memory: b [n, k].
  await gpu.run('gemm_norm', {
    spec: { THREADS_PER_ROW: 32, TILE_N: 64, GIVEN: 6 },
    args: {
      a: gpu.f32(a),
      b: gpu.f32(b),
      residual: gpu.f32(residual),
      sum: total,
      weight: gpu.f32(w),
      shift: gpu.f32(shift),
      y,
      m,
      n,
      k,
      lda: k,
      ldb: k,
      ld_residual: n,
      eps: 1e-5,
    },
    groups: [Math.ceil(m / 8)],
  });
  const s = range(m * n).map(
    (i) => residual[i] + sum(range(k).map((j) => a[Math.floor(i / n) * k + j] * b[(i % n) * k + j])),
  );
  close(await gpu.read(total), s, 1e-4, 1e-5);
  close(
    await gpu.read(y),
    s.map((v, i) => {
      const row = s.slice(i - (i % n), i - (i % n) + n),
        mean = sum(row) / n;
      return ((v - mean) / Math.sqrt(sum(row.map((e) => (e - mean) ** 2)) / n + 1e-5)) * w[i % n] + shift[i % n];
    }),
    1e-4,
    1e-4,
  );
});

test('sample_tokens: greedy, and only the largest of top_k 1', async () => {
  const gpu = await open(),
    size = 700,
    logits = random(2 * size, -5, 5),
    tokens = gpu.empty('i32', 2),
    best = range(2).map((r) => {
      const row = logits.slice(r * size, (r + 1) * size);
      return row.indexOf(Math.max(...row));
    });
  const numbers = [0, 0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0]; // temperature 0; temperature 1 and top_k 1
  await gpu.run('sample_tokens', {
    args: {
      logits: gpu.f32(logits),
      numbers: gpu.f32(numbers),
      seeds: gpu.i32([1, 2, 3, 4]),
      draws: gpu.i32([0, 0]),
      values: gpu.empty('f32', 2 * size),
      tokens,
      size,
    },
    groups: [2],
  });
  close(await gpu.read(tokens), best, 0, 0);
});

test('accumulate: the running maximum and its place', async () => {
  const gpu = await open(),
    n = 3000,
    x = random(n),
    y = gpu.empty('f32', n),
    indices = gpu.empty('i64', n);
  await gpu.run('accumulate_float', {
    spec: { KIND: 2 },
    args: { x: gpu.f32(x), y, indices, rows: 1, n, chunks: 1 },
  });
  let most = -1;
  const places = x.map((v, i) => (most < 0 || v >= x[most] ? (most = i) : most));
  close(
    await gpu.read(y),
    places.map((i) => x[i]),
    0,
    0,
  );
  close(await gpu.read(indices), places, 0, 0);
});

test('binned sums, all numbers in one bucket', async () => {
  const gpu = await open(),
    n = 2000,
    size = 50,
    places = integers(n, size),
    x = random(n, -1, 1, 2),
    y = gpu.zeros('f32', size);
  const states = gpu.zeros('u32', size),
    sums = gpu.zeros('u32', 2 * size),
    args = { places: gpu.tensor('u32', places), x: gpu.f32(x), y, states, sums, n, size };
  const uses = (name) =>
    Object.fromEntries(
      Object.entries(args).filter(([key]) => kernels.bundle.kernels[name].parameters.some((p) => p.name === key)),
    );
  for (const name of ['bin_exponents', 'bin_sums'])
    await gpu.run(name, { spec: { DIRECT: 1 }, args: uses(name), groups: [4] });
  await gpu.run('bin_results', { args: uses('bin_results'), groups: [1] });
  close(
    await gpu.read(y),
    range(size).map((b) => sum(x.filter((_, i) => places[i] === b))),
    1e-5,
    1e-6,
  );
});

test('f16 in JavaScript agrees with itself', () => {
  close(
    [0.1, -65504, 6e-8, 1.5].map((v) => from_f16(to_f16(v))),
    [0.0999755859375, -65504, 5.960464477539063e-8, 1.5],
    0,
    0,
  );
});
