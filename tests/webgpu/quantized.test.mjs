// Weights in block formats.
import { test } from 'node:test';
import { ACTIVATION, close, from_f16, open, random, range, to_f16 } from './harness.mjs';

const sum = (x) => x.reduce((a, b) => a + b, 0);
const bits_of = (x) => new Uint32Array(new Float32Array([x]).buffer)[0];

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
    spec: {
      THREADS: 32,
      PARTS: 32,
      NORM_DTYPE: 1,
      RESIDUAL_DTYPE: 1,
      GATE: ACTIVATION.silu,
      EPS: bits_of(1e-5),
      ...plain,
    },
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

test('quantize_activations', async () => {
  const gpu = await open(),
    k = 64,
    blocks = (2 * k) / 16,
    x = random(2 * k),
    y = gpu.empty('u8', 2 * k + 2 * 4 * blocks);
  await gpu.run('quantize_activations', { args: { x: gpu.f32(x), y, rows: 2, k }, groups: [1, 2] });
  const bytes = await gpu.read(y),
    codes = new Int8Array(bytes.buffer, bytes.byteOffset, 2 * k),
    scales = new Float32Array(bytes.buffer.slice(2 * k, 2 * k + 4 * blocks));
  close(
    Array.from(codes, (c, i) => c * scales[i >> 4]),
    x,
    0,
    0.005,
  );
});
