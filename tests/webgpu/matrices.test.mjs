// Products of matrices: gemm, attention, weights in block formats, convolutions.
import { test } from 'node:test';
import { close, from_f16, open, random, range, to_f16 } from './harness.mjs';

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
        spec: { A_WIDTH: width, B_WIDTH: width, Y_WIDTH: width, EPILOGUE: 1 | (3 << 6) },
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

function attend(q, k, v, { queries, keys, size, causal, scale }) {
  const y = [],
    logs = [];
  for (let i = 0; i < queries; ++i) {
    const s = range(keys).map((j) =>
      causal && j > i ? -Infinity : scale * sum(range(size).map((d) => q[i * size + d] * k[j * size + d])),
    );
    const most = Math.max(...s),
      e = s.map((x) => Math.exp(x - most)),
      all = sum(e);
    for (let d = 0; d < size; ++d) y.push(sum(e.map((w, j) => (w / all) * v[j * size + d])));
    logs.push(most + Math.log(all));
  }
  return { y, logs };
}

for (const [name, size] of [
  ['attention_64', 64],
  ['attention_128', 72],
]) {
  test(`${name} and its gradients, causal`, async () => {
    const gpu = await open(),
      heads = 2,
      t = 70,
      scale = 0.2,
      n = heads * t * size,
      options = { queries: t, keys: t, size, causal: true, scale };
    const [q, k, v, dy] = [1, 2, 3, 4].map((s) => random(n, -1, 1, s)),
      strides = [n, t * size, size];
    const y = gpu.empty('f32', n),
      logsumexp = gpu.empty('f32', heads * t),
      shape = (1 | (size << 16) | (1 << 31)) >>> 0;
    const tensors = { q: gpu.f32(q), k: gpu.f32(k), v: gpu.f32(v) };
    await gpu.run(name, {
      spec: { WIDTH: 4 },
      args: {
        ...tensors,
        y,
        logsumexp,
        q_strides: strides,
        k_strides: strides,
        v_strides: strides,
        queries: t,
        keys: t,
        shape,
        scale,
      },
      groups: [Math.ceil(t / 64), heads, 1],
    });
    const part = (x, h) => x.slice(h * t * size, (h + 1) * t * size),
      e = range(heads).map((h) => attend(part(q, h), part(k, h), part(v, h), options));
    close(
      await gpu.read(y),
      e.flatMap((r) => r.y),
      1e-4,
      1e-5,
    );
    close(
      await gpu.read(logsumexp),
      e.flatMap((r) => r.logs),
      1e-5,
      1e-5,
    );

    const suffix = name.split('_')[1],
      gradient = gpu.empty('f32', n),
      dk = gpu.empty('f32', n),
      dv = gpu.empty('f32', n);
    const common = {
      ...tensors,
      dy: gpu.f32(dy),
      y,
      logsumexp,
      q_strides: strides,
      kv_strides: strides,
      dy_strides: strides,
      queries: t,
      keys: t,
      shape,
      scale,
    };
    await gpu.run(`attention_dq_${suffix}`, {
      spec: { WIDTH: 4 },
      args: { ...common, gradient },
      groups: [Math.ceil(t / 64), heads, 1],
    });
    await gpu.run(`attention_dkv_${suffix}`, {
      spec: { WIDTH: 4 },
      args: { ...common, gradient: dk, dv },
      groups: [Math.ceil(t / 64), heads, 1],
    });
    const want = { q: [], k: [], v: [] };
    for (let h = 0; h < heads; ++h) {
      const [qh, kh, vh, gh] = [q, k, v, dy].map((x) => part(x, h)),
        dq = Array(t * size).fill(0),
        dkh = dq.slice(),
        dvh = dq.slice();
      for (let i = 0; i < t; ++i) {
        const along = sum(range(size).map((d) => gh[i * size + d] * e[h].y[i * size + d]));
        for (let j = 0; j <= i; ++j) {
          let s = 0,
            g = 0;
          for (let d = 0; d < size; ++d)
            ((s += qh[i * size + d] * kh[j * size + d]), (g += gh[i * size + d] * vh[j * size + d]));
          const w = Math.exp(s * scale - e[h].logs[i]),
            ds = w * (g - along) * scale;
          for (let d = 0; d < size; ++d) {
            dq[i * size + d] += ds * kh[j * size + d];
            dkh[j * size + d] += ds * qh[i * size + d];
            dvh[j * size + d] += w * gh[i * size + d];
          }
        }
      }
      (want.q.push(...dq), want.k.push(...dkh), want.v.push(...dvh));
    }
    close(await gpu.read(gradient), want.q, 1e-3, 2e-5);
    close(await gpu.read(dk), want.k, 1e-3, 2e-5);
    close(await gpu.read(dv), want.v, 1e-3, 2e-5);
  });
}

for (const whole of [1, 0]) {
  test(`paged_attention, ${whole ? 'whole' : 'in chunks that paged_attention_merge joins'}`, async () => {
    const gpu = await open(),
      size = 32,
      heads = 2,
      groups = 2,
      width = 4,
      blocks = 7,
      positions = [200, 63],
      batch = 2,
      scale = 0.3,
      span = whole ? 256 : 128;
    const table = [5, 2, 6, 0, 3, 1, -1, -1],
      cache = blocks * groups * 64 * size,
      keys = random(cache),
      values = random(cache, -1, 1, 2);
    const q = random(batch * groups * heads * size, -1, 1, 3),
      y = gpu.empty('f32', q.length),
      chunks = 256 / span;
    const parts = gpu.empty('f32', batch * groups * heads * chunks * (size + 2));
    const args = {
      q: gpu.f32(q),
      keys: gpu.f32(keys),
      values: gpu.f32(values),
      table: gpu.i32(table),
      positions: gpu.i32(positions),
      y,
      parts,
      steps: 1,
      groups,
      width,
      blocks,
      chunks,
      window: 0,
      span,
      scale,
      softcap: 0,
    };
    await gpu.run('paged_attention', {
      spec: { DTYPE: 1, CACHE_DTYPE: 1, SIZE: size, HEADS: heads, WHOLE: whole },
      args,
      groups: [chunks, groups, batch],
    });
    if (!whole) {
      await gpu.run('paged_attention_merge', {
        args: {
          parts,
          positions: args.positions,
          y,
          steps: 1,
          groups,
          heads,
          chunks,
          chunk: span,
          size,
          width: width * 64,
        },
        groups: [batch * groups * heads],
      });
    }
    const expected = [];
    for (let b = 0; b < batch; ++b) {
      for (let g = 0; g < groups; ++g) {
        const row = (cached, t) =>
          cached.slice(((table[b * width + (t >> 6)] * groups + g) * 64 + (t & 63)) * size).slice(0, size);
        const n = positions[b] + 1,
          k = range(n).flatMap((t) => row(keys, t)),
          v = range(n).flatMap((t) => row(values, t));
        for (let h = 0; h < heads; ++h) {
          const at = ((b * groups + g) * heads + h) * size;
          expected.push(
            ...attend(q.slice(at, at + size), k, v, { queries: 1, keys: n, size, causal: false, scale }).y,
          );
        }
      }
    }
    close(await gpu.read(y), expected, 1e-4, 1e-5);
  });
}

// Blocks of random bytes with sane scales, and their values.
const FORMATS = {
  Q4_0: [
    2,
    32,
    18,
    (b) => {
      const d = b.f16(0);
      return range(32).map((i) => d * ((i < 16 ? b.u8(2 + i) & 15 : b.u8(2 + i - 16) >> 4) - 8));
    },
  ],
  Q4_1: [
    3,
    32,
    20,
    (b) => {
      const d = b.f16(0),
        m = b.f16(2);
      return range(32).map((i) => d * (i < 16 ? b.u8(4 + i) & 15 : b.u8(4 + i - 16) >> 4) + m);
    },
  ],
  Q5_0: [
    6,
    32,
    22,
    (b) => {
      const d = b.f16(0),
        high = (b.u8(2) | (b.u8(3) << 8) | (b.u8(4) << 16) | (b.u8(5) << 24)) >>> 0;
      return range(32).map(
        (i) => d * (((i < 16 ? b.u8(6 + i) & 15 : b.u8(6 + i - 16) >> 4) | (((high >>> i) & 1) << 4)) - 16),
      );
    },
  ],
  Q8_0: [
    8,
    32,
    34,
    (b) => {
      const d = b.f16(0);
      return range(32).map((i) => d * ((b.u8(2 + i) << 24) >> 24));
    },
  ],
  Q4_K: [
    12,
    256,
    144,
    (b) => {
      const d = b.f16(0),
        least = b.f16(2);
      return range(256).map((i) => {
        const j = i >> 5,
          s = (k) => b.u8(4 + k),
          byte = b.u8(16 + (i >> 6) * 32 + (i % 32)),
          code = j & 1 ? byte >> 4 : byte & 15;
        const scale = j < 4 ? s(j) & 63 : (s(j + 4) & 15) | ((s(j - 4) >> 6) << 4),
          minimum = j < 4 ? s(j + 4) & 63 : (s(j + 4) >> 4) | ((s(j) >> 6) << 4);
        return d * scale * code - least * minimum;
      });
    },
    [0, 2],
  ],
  Q6_K: [
    14,
    256,
    210,
    (b) => {
      const d = b.f16(208);
      return range(256).map((i) => {
        const half = i >> 7,
          l = i & 31,
          part = (i >> 5) & 3,
          low = b.u8(half * 64 + l + (part & 1) * 32);
        const code = (part < 2 ? low & 15 : low >> 4) | (((b.u8(128 + half * 32 + l) >> (2 * part)) & 3) << 4);
        return d * ((b.u8(192 + half * 8 + (l >> 4) + 2 * part) << 24) >> 24) * (code - 32);
      });
    },
    [208],
  ],
};
function blocks_of(name, rows, k) {
  const [, elements, bytes, decode, scales = name === 'Q4_1' ? [0, 2] : [0]] = FORMATS[name],
    count = (rows * k) / elements;
  const data = Uint8Array.from(random(count * bytes, 0, 256, 7), Math.floor),
    values = [];
  for (let i = 0; i < count; ++i) {
    const at = i * bytes;
    scales.forEach((s, n) => {
      const h = to_f16(0.01 + 0.001 * ((i + n) % 7));
      data[at + s] = h & 255;
      data[at + s + 1] = h >> 8;
    });
    const b = { u8: (o) => data[at + o], f16: (o) => from_f16(data[at + o] | (data[at + o + 1] << 8)) };
    values.push(...decode(b));
  }
  return { data, values, row_bytes: (k / elements) * bytes };
}

for (const name of Object.keys(FORMATS)) {
  test(`quantized_linear_shared and quantized_rows of ${name}`, async () => {
    const gpu = await open(),
      k = 512,
      n = 10,
      rows = 2,
      x = random(rows * k),
      { data, values, row_bytes } = blocks_of(name, n, k);
    const w0 = gpu.write(gpu.empty('u8', data.length), data),
      y = gpu.empty('f32', rows * n),
      format = FORMATS[name][0],
      aligned = 2;
    const formats = Object.fromEntries(
      [0, 1, 2].flatMap((i) => [
        [`FORMAT_${i}`, format],
        [`ALIGNED_${i}`, aligned],
      ]),
    );
    await gpu.run('quantized_linear_shared', {
      spec: { THREADS: 64, ROWS: 2, X_ROWS: 2, PARTS: 64, ...formats },
      args: {
        x: gpu.f32(x),
        y,
        w0,
        w1: w0,
        w2: w0,
        x_rows: rows,
        k,
        n0: n,
        bytes0: row_bytes,
        bytes1: row_bytes,
        bytes2: row_bytes,
      },
      groups: [n / 2],
    });
    close(
      await gpu.read(y),
      range(rows * n).map((i) => sum(range(k).map((j) => x[Math.floor(i / n) * k + j] * values[(i % n) * k + j]))),
      1e-4,
      1e-4,
    );

    const all = gpu.empty('f32', 3 * k);
    await gpu.run('quantized_rows', {
      spec: { FORMAT: format, ALIGNED: aligned, WIDTH: 4 },
      args: {
        blocks: w0,
        y: all,
        index: gpu.tensor('i64', [9, 0, 4]),
        rows: 3,
        columns: k,
        row_bytes,
        row_size: 4 * k,
        limit: n,
      },
      groups: [1],
    });
    close(
      await gpu.read(all),
      [9, 0, 4].flatMap((r) => values.slice(r * k, (r + 1) * k)),
      1e-6,
      1e-7,
    );
  });
}

test('quantized_linear_shared of f32 with a norm, silu gate and residual', async () => {
  const gpu = await open(),
    k = 48,
    n = 6,
    x = random(k),
    w0 = random(n * k, -1, 1, 2),
    w1 = random(n * k, -1, 1, 3),
    norm = random(k, 0.5, 1, 4);
  const residual = random(n, -1, 1, 5),
    y = gpu.empty('f32', n),
    plain = Object.fromEntries([0, 1, 2].map((i) => [`ALIGNED_${i}`, 16]));
  await gpu.run('quantized_linear_shared', {
    spec: { THREADS: 32, PARTS: 32, NORM_DTYPE: 1, RESIDUAL_DTYPE: 1, GATE: 1, ...plain },
    args: {
      x: gpu.f32(x),
      y,
      norm: gpu.f32(norm),
      residual: gpu.f32(residual),
      w0: gpu.f32(w0),
      w1: gpu.f32(w1),
      x_rows: 1,
      k,
      n0: n,
      n1: n,
      bytes0: 4 * k,
      bytes1: 4 * k,
      bytes2: 4 * k,
      eps: 1e-5,
    },
    groups: [n],
  });
  const scale = 1 / Math.sqrt(sum(x.map((v) => v * v)) / k + 1e-5),
    dot = (w, i) => sum(x.map((v, j) => v * scale * norm[j] * w[i * k + j]));
  close(
    await gpu.read(y),
    residual.map((r, i) => {
      const a = dot(w0, i);
      return (a / (1 + Math.exp(-a))) * dot(w1, i) + r;
    }),
    1e-4,
    1e-5,
  );
});

test('round_rows', async () => {
  const gpu = await open(),
    k = 64,
    x = random(2 * k),
    y = gpu.empty('u8', 2 * k + 4 * 4 * 2);
  await gpu.run('round_rows', { args: { x: gpu.f32(x), y, rows: 2, k }, groups: [1, 2] });
  const bytes = await gpu.read(y),
    codes = new Int8Array(bytes.buffer, bytes.byteOffset, 2 * k),
    scales = new Float32Array(bytes.buffer.slice(2 * k, 2 * k + 16));
  close(
    Array.from(codes, (c, i) => c * scales[i >> 5]),
    x,
    0,
    0.005,
  );
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
