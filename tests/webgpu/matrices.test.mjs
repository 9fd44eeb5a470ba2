// Products of matrices and convolutions.
import { test } from 'node:test';
import { ACTIVATION, close, from_f16, open, random, range, to_f16 } from './harness.mjs';

const sum = (x) => x.reduce((a, b) => a + b, 0);
const gelu = (x) => 0.5 * x * (1 + Math.tanh(0.7978845608028654 * (x + 0.044715 * x ** 3)));
/// a [m, k] · b [k, n]
const matmul = (a, b, m, n, k) =>
  range(m * n).map((i) => {
    let s = 0;
    for (let j = 0; j < k; ++j) s += a[Math.floor(i / n) * k + j] * b[j * n + (i % n)];
    return s;
  });

for (const tile of [32, 64, 128]) {
  for (const [m, n, k, width] of [
    [45, 70, 37, 1],
    [64, 128, 96, 4],
  ]) {
    test(`gemm_${tile}, ${m} x ${n} x ${k}, with bias and gelu_tanh`, async () => {
      const gpu = await open(),
        a = random(m * k),
        b = random(k * n, -1, 1, 2),
        bias = random(n, -1, 1, 3),
        y = gpu.empty('f32', m * n);
      await gpu.run(`gemm_${tile}`, {
        spec: { A_WIDTH: width, B_WIDTH: width, Y_WIDTH: width, EPILOGUE: 1 | (ACTIVATION.gelu_tanh << 6) },
        args: {
          a: gpu.f32(a),
          b: gpu.f32(b),
          bias: gpu.f32(bias),
          y,
          m,
          n,
          k,
          lda: k,
          ldb: n,
          ldy: n,
          inner: 1,
          batch: 1,
          k_per_split: 1024,
        },
        groups: [Math.ceil(m / tile) * Math.ceil(n / tile)],
      });
      close(
        await gpu.read(y),
        matmul(a, b, m, n, k).map((v, i) => gelu(v + bias[i % n])),
        1e-4,
        2e-5,
      );
    });
  }
}

test('gemm in parts of k, and gemm_reduce', async () => {
  const gpu = await open(),
    m = 20,
    n = 24,
    k = 256,
    a = random(m * k),
    b = random(k * n, -1, 1, 2);
  const partial = gpu.empty('f32', 4 * m * n),
    y = gpu.empty('f32', m * n);
  await gpu.run('gemm_32', {
    args: {
      a: gpu.f32(a),
      b: gpu.f32(b),
      y: partial,
      m,
      n,
      k,
      lda: k,
      ldb: n,
      ldy: n,
      inner: 1,
      batch: 1,
      k_per_split: 64,
    },
    groups: [4],
  });
  await gpu.run('gemm_reduce', { args: { partial, y, ldy: n, count: m * n, n, splits: 4 }, groups: [2] });
  close(await gpu.read(y), matmul(a, b, m, n, k), 1e-4, 2e-5);
});

test('gemm of f16, b transposed, result f16', async () => {
  const gpu = await open(),
    m = 33,
    n = 18,
    k = 40,
    half = (x) => from_f16(to_f16(x)),
    a = random(m * k).map(half),
    b = random(n * k, -1, 1, 2).map(half);
  const y = gpu.empty('f16', m * n);
  await gpu.run('gemm_32', {
    spec: { DTYPE: 2, Y_DTYPE: 2, B_K_NEIGHBOURS: 1 },
    args: {
      a: gpu.tensor('f16', a),
      b: gpu.tensor('f16', b),
      y,
      m,
      n,
      k,
      lda: k,
      ldb: k,
      ldy: n,
      inner: 1,
      batch: 1,
      k_per_split: 1024,
    },
    groups: [2],
  });
  close(
    await gpu.read(y),
    matmul(
      a,
      range(k * n).map((i) => b[(i % n) * k + Math.floor(i / n)]),
      m,
      n,
      k,
    ),
    0.001,
    1e-4,
  );
});

test('gemm_int8, unpacked and by packed dot products', async () => {
  for (const [name, tile] of [
    ['gemm_int8_64', 64],
    ['gemm_int8_packed_64', 64],
    ['gemm_int8_128', 128],
    ['gemm_int8_packed_128', 128],
  ]) {
    const gpu = await open(),
      m = 30,
      n = 40,
      k = 72,
      a = random(m * k, -128, 128).map(Math.floor),
      b = random(k * n, -128, 128, 2).map(Math.floor);
    const y = gpu.empty('i32', m * n);
    await gpu.run(name, {
      args: { a: gpu.tensor('i8', a), b: gpu.tensor('i8', b), y, m, n, k, lda: k, ldb: n, inner: 1, batch: 1 },
      groups: [Math.ceil(m / tile) * Math.ceil(n / tile)],
    });
    close(await gpu.read(y), matmul(a, b, m, n, k), 0, 0);
  }
});

test('integer_matmul', async () => {
  const gpu = await open(),
    m = 18,
    n = 20,
    k = 33,
    a = random(m * k, -1000, 1000).map(Math.floor),
    b = random(k * n, -1000, 1000, 2).map(Math.floor);
  const y = gpu.empty('i32', m * n);
  await gpu.run('integer_matmul', {
    spec: { DTYPE: 5 },
    args: { a: gpu.i32(a), b: gpu.i32(b), y, batch: 1, m, n, k },
    groups: [4],
  });
  close(await gpu.read(y), matmul(a, b, m, n, k), 0, 0);
});

const convolve = (x, w, { size, kernel, padding }) => {
  const [h, width] = size,
    out = [h + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1],
    y = [];
  for (let r = 0; r < out[0]; ++r)
    for (let c = 0; c < out[1]; ++c) {
      let s = 0;
      for (let i = 0; i < kernel; ++i)
        for (let j = 0; j < kernel; ++j) {
          const a = r + i - padding,
            b = c + j - padding;
          if (a >= 0 && a < h && b >= 0 && b < width) s += x[a * width + b] * w[i * kernel + j];
        }
      y.push(s);
    }
  return y;
};
test('convolution of each channel by itself', async () => {
  const gpu = await open(),
    size = [9, 11],
    channels = 3,
    kernel = 3,
    padding = 1,
    pixels = 99,
    x = random(channels * pixels),
    w = random(channels * 9, -1, 1, 2);
  const of = (t, c, n) => range(n).map((i) => t[c * n + i]);
  // Channels are the last dimension of x and y.
  const last = (parts) => range(pixels).flatMap((i) => parts.map((q) => q[i])),
    y = gpu.empty('f32', channels * pixels);
  const planes = range(channels).map((c) => of(x, c, pixels));
  await gpu.run('convolution', {
    args: {
      x: gpu.f32(last(planes)),
      weight: gpu.f32(range(9).flatMap((i) => range(channels).map((c) => w[c * 9 + i]))),
      y,
      n: channels * pixels,
      channels,
      per_group: 1,
      from: 1,
      x_size: [1, ...size],
      kernel: [1, 3, 3],
      y_size: [1, ...size],
      stride: [1, 1, 1],
      padding: [0, 1, 1],
      dilation: [1, 1, 1],
    },
    groups: [Math.ceil((channels * pixels) / 128)],
  });
  close(
    await gpu.read(y),
    last(planes.map((q, c) => convolve(q, of(w, c, 9), { size, kernel, padding }))),
    1e-5,
    1e-5,
  );
});
