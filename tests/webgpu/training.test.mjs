// Kernels of training steps: optimizers, norms of gradients, random numbers, pooling, patches.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { close, DTYPE, kernels, open, random, range } from './harness.mjs';

const sum = (x) => x.reduce((a, b) => a + b, 0);

test('rope, both halves and interleaved', async () => {
  for (const interleaved of [0, 1]) {
    const gpu = await open(),
      heads = 3,
      steps = 5,
      size = 8,
      pairs = 4,
      x = random(heads * steps * size),
      frequencies = range(pairs).map((i) => 10 ** -i),
      y = gpu.empty('f32', x.length);
    await gpu.run('rope', {
      spec: { INTERLEAVED: interleaved },
      args: {
        x: gpu.f32(x),
        frequencies: gpu.f32(frequencies),
        y,
        count: x.length / 2,
        heads,
        steps,
        size,
        pairs,
        strides: [heads * steps * size, steps * size, size],
      },
    });
    close(
      await gpu.read(y),
      x.map((_, i) => {
        const row = i - (i % size),
          e = i % size,
          k = interleaved ? e >> 1 : e % pairs,
          second = interleaved ? e & 1 : e >= pairs;
        const u = x[row + (interleaved ? 2 * k : k)],
          v = x[row + (interleaved ? 2 * k + 1 : k + pairs)],
          angle = ((row / size) % steps) * frequencies[k];
        return second ? v * Math.cos(angle) + u * Math.sin(angle) : u * Math.cos(angle) - v * Math.sin(angle);
      }),
      1e-5,
      2e-6,
    );
  }
});

// Rows of lib/multi_tensor.glsl: five addresses, elements, first chunk, two dtypes.
function rows_of(gpu, tensors) {
  let chunks = 0;
  const words = tensors.flatMap((list) => {
    const row = [...range(5).flatMap((i) => gpu.address(list[i])), list[0].length, chunks, DTYPE.f32, DTYPE.f32];
    chunks += Math.ceil(list[0].length / 4096);
    return row;
  });
  return { rows: gpu.tensor('u32', words), count: tensors.length, chunks };
}

test('optimizer: two steps of sgd and adam over several tensors', async () => {
  for (const [kernel, update] of [
    ['sgd_step', (x, g) => x - 0.1 * g],
    ['adam_step', null],
  ]) {
    const gpu = await open(),
      sizes = [5000, 7, 300],
      numbers = (v) => gpu.f32(Array(4).fill(v));
    const data = sizes.map((n, i) => ({
      x: random(n, -1, 1, i + 1),
      g: random(n, -1, 1, i + 9),
      m: Array(n).fill(0),
      v: Array(n).fill(0),
    }));
    const tensors = data.map((d) => [gpu.f32(d.x), gpu.f32(d.g), gpu.f32(d.m), gpu.f32(d.v), null]),
      constants = {};
    for (const p of kernels.bundle.kernels[kernel].parameters.slice(8)) constants[p.name] = ADAM[p.name] ?? 0;
    for (const step of [1, 2]) {
      await gpu.run(kernel, {
        spec: { WIDTH: 4 },
        args: {
          ...rows_of(gpu, tensors),
          lr: numbers(0.1),
          weight_decay: numbers(0),
          step: numbers(step),
          momentum: gpu.f32([0.9, Math.log(0.9), 0.1]),
          ...constants,
        },
        groups: [4],
      });
      for (const d of data) {
        d.x = d.x.map((x, i) => {
          if (update) return update(x, d.g[i]);
          d.m[i] = 0.9 * d.m[i] + 0.1 * d.g[i];
          d.v[i] = 0.999 * d.v[i] + 0.001 * d.g[i] ** 2;
          return x - (0.1 * d.m[i]) / (1 - 0.9 ** step) / (Math.sqrt(d.v[i] / (1 - 0.999 ** step)) + 1e-8);
        });
      }
    }
    for (const [i, d] of data.entries()) close(await gpu.read(tensors[i][0]), d.x, 1e-4, 2e-5);
  }
});
const ADAM = { beta2: 0.999, log_beta2: Math.log(0.999), one_minus_beta2: 0.001, eps: 1e-8, gradient_sign: 1 };

test('global norm of several tensors, clipping, and the scale of a loss', async () => {
  const gpu = await open(),
    sizes = [5000, 30],
    x = sizes.map((n, i) => random(n, -1, 1, i + 1)),
    tensors = x.map((v) => [gpu.f32(v)]);
  const { rows, count, chunks } = rows_of(gpu, tensors),
    partial = gpu.empty('f32', chunks),
    norm = gpu.zeros('f32', 4);
  const args = { rows, count, chunks, partial, norm, max_norm: 1 };
  await gpu.run('global_norm_chunks', { spec: { ORDER: 2 }, args, groups: [chunks] });
  await gpu.run('global_norm_total', { spec: { ORDER: 2 }, args });
  const expected = Math.sqrt(sum(x.flat().map((v) => v * v)));
  close((await gpu.read(norm)).slice(0, 1), [expected], 1e-5);
  await gpu.run('scale_to_norm', { args, groups: [chunks] });
  close(
    await gpu.read(tensors[0][0]),
    x[0].map((v) => v / (expected + 1e-6)),
    1e-5,
  );
  const state = gpu.f32([1024, 9, 0]);
  await gpu.run('loss_scale', { args: { state, growth: 2, backoff: 0.5, interval: 10 } });
  close(await gpu.read(state), [2048, 0, 0], 0, 0);
});

function philox(counter, key) {
  let [a, b, c, d] = counter,
    [k, l] = key;
  const multiply = (x, y) => {
    const p = BigInt(x) * BigInt(y);
    return [Number(p >> 32n), Number(p & 0xffffffffn)];
  };
  for (let i = 0; i < 10; ++i) {
    const [h0, l0] = multiply(0xd2511f53, a),
      [h1, l1] = multiply(0xcd9e8d57, c);
    [a, b, c, d] = [(h1 ^ b ^ k) >>> 0, l1, (h0 ^ d ^ l) >>> 0, l0];
    k = (k + 0x9e3779b9) >>> 0;
    l = (l + 0xbb67ae85) >>> 0;
  }
  return [a, b, c, d];
}
test('random numbers have the bits of Philox; dropout keeps by them', async () => {
  const gpu = await open(),
    n = 1000,
    words = range(n / 4).flatMap((b) => philox([b, 0, 3, 0], [42, 1])),
    y = gpu.empty('f32', n);
  const args = { y, seed: [42, 1], offset: [3, 0], n };
  await gpu.run('random_fill', { spec: [1, 0], args });
  close(
    await gpu.read(y),
    words.map((w) => (w >>> 8) / 2 ** 24),
    0,
    0,
  );
  await gpu.run('random_fill', { spec: [1, 1], args });
  const z = await gpu.read(y),
    mean = sum([...z]) / n;
  assert.ok(
    Math.abs(mean) < 0.1 && Math.abs(sum([...z].map((v) => (v - mean) ** 2)) / n - 1) < 0.15,
    'is not normal',
  );
  const x = random(n),
    threshold = 2 ** 31;
  await gpu.run('dropout', { args: { ...args, x: gpu.f32(x), threshold, scale: 2 } });
  close(
    await gpu.read(y),
    x.map((v, i) => (words[i] >= threshold ? 2 * v : 0)),
    0,
    0,
  );
});

test('fft of 64 and, direct, of 15 complex numbers', async () => {
  for (const [n, direct] of [
    [64, 0],
    [15, 1],
  ]) {
    const gpu = await open(),
      x = random(2 * n),
      y = gpu.empty('f32', 2 * n);
    await gpu.run('fft', {
      spec: { DIRECT: direct },
      args: { x: gpu.f32(x), y, lines: 1, n, inner: 1, each: 1, whole: 0, columns: 0, apart: 1, sign: -1, scale: 1 },
    });
    close(
      await gpu.read(y),
      range(2 * n).map((i) =>
        sum(
          range(n).map((k) => {
            const t = (-2 * Math.PI * (i >> 1) * k) / n,
              [re, im] = [x[2 * k], x[2 * k + 1]];
            return i & 1 ? re * Math.sin(t) + im * Math.cos(t) : re * Math.cos(t) - im * Math.sin(t);
          }),
        ),
      ),
      1e-5,
      2e-5,
    );
  }
});

test('max_pool and its gradient', async () => {
  const gpu = await open(),
    size = 6,
    x = random(36),
    y = gpu.empty('f32', 9),
    indices = gpu.empty('i32', 9);
  const spec = { KERNEL_1: 2, STRIDE_1: 2, KERNEL_2: 2, STRIDE_2: 2 },
    sizes = [1, 1, size, 3, size, 3];
  await gpu.run('max_pool', { spec, args: { x: gpu.f32(x), y, indices, n: 9, inner: 1, sizes } });
  const at = range(9).map(
    (i) =>
      [0, 1, size, size + 1]
        .map((d) => Math.floor(i / 3) * 2 * size + (i % 3) * 2 + d)
        .sort((a, b) => x[b] - x[a])[0],
  );
  close(
    await gpu.read(y),
    at.map((i) => x[i]),
    0,
    0,
  );
  close(await gpu.read(indices), at, 0, 0);
  const dx = gpu.empty('f32', 36);
  await gpu.run('max_pool_back', { spec, args: { x: y, y: dx, indices, n: 36, inner: 1, sizes } });
  close(
    await gpu.read(dx),
    x.map((v, i) => (at.includes(i) ? v : 0)),
    0,
    0,
  );
});

test('im2col of a 3 x 3 kernel and col2im, its transpose', async () => {
  const gpu = await open(),
    h = 5,
    w = 6,
    channels = 4,
    x = random(h * w * channels),
    taps = 9,
    y = gpu.empty('f32', h * w * taps * channels);
  await gpu.run('im2col', {
    spec: [16, 0],
    args: {
      x: gpu.f32(x),
      y,
      n: h * w,
      units: 1,
      group_units: 1,
      taps,
      row: taps,
      group: 0,
      in_size: [1, h, w],
      kernel: [3, 3],
      out_size: [1, h, w],
      stride: [1, 1, 1],
      padding: [0, 1, 1],
      dilation: [1, 1, 1],
    },
  });
  const inside = (p, t) => {
    const a = Math.floor(p / w) + Math.floor(t / 3) - 1,
      b = (p % w) + (t % 3) - 1;
    return a < 0 || a >= h || b < 0 || b >= w ? -1 : a * w + b;
  };
  const patches = range(h * w).flatMap((p) =>
    range(taps).flatMap((t) => range(channels).map((c) => (inside(p, t) < 0 ? 0 : x[inside(p, t) * channels + c]))),
  );
  close(await gpu.read(y), patches, 0, 0);
  const back = gpu.empty('f32', x.length);
  await gpu.run('col2im', {
    spec: [1, 1, 1, 0, 4],
    args: {
      patches: y,
      x: back,
      places: h * w,
      groups: 1,
      channels,
      row: taps * channels,
      group: 0,
      in_size: [1, h, w],
      kernel: [1, 3, 3],
      out_size: [1, h, w],
      stride: [1, 1, 1],
      padding: [0, 1, 1],
      dilation: [1, 1, 1],
    },
  });
  const expected = Array(x.length).fill(0);
  for (let p = 0; p < h * w; ++p)
    for (let t = 0; t < taps; ++t)
      if (inside(p, t) >= 0)
        for (let c = 0; c < channels; ++c)
          expected[inside(p, t) * channels + c] += patches[(p * taps + t) * channels + c];
  close(await gpu.read(back), expected, 1e-5, 1e-6);
});

test('resample: the mean of windows', async () => {
  const gpu = await open(),
    x = random(36),
    y = gpu.empty('f32', 9),
    window = (from, to, kernel) => [from, to, kernel, kernel, 0];
  // The sixth word of an axis is a float; 0 is 0 in both.
  const axes = [...window(1, 1, 1), 0, ...window(6, 3, 2), 0, ...window(6, 3, 2), 0];
  await gpu.run('resample', { args: { x: gpu.f32(x), y, n: 9, inner: 1, factor: 1, axes } });
  close(
    await gpu.read(y),
    range(9).map((i) => sum([0, 1, 6, 7].map((d) => x[Math.floor(i / 3) * 12 + (i % 3) * 2 + d])) / 4),
    1e-5,
    1e-6,
  );
});
