// Attention, its gradients, and attention to a paged cache.
import { test } from 'node:test';
import { close, open, random, range } from './harness.mjs';

const sum = (x) => x.reduce((a, b) => a + b, 0);

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
    const partial = gpu.empty('f32', batch * groups * heads * chunks * (size + 2));
    const args = {
      q: gpu.f32(q),
      keys: gpu.f32(keys),
      values: gpu.f32(values),
      table: gpu.i32(table),
      positions: gpu.i32(positions),
      y,
      partial,
      steps: 1,
      groups,
      width,
      blocks,
      chunks,
      limit: 0,
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
          partial,
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
