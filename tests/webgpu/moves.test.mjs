// Kernels that move, choose and sort elements.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { close, DTYPE, kernels, open, random, range } from './harness.mjs';

const sum = (x) => x.reduce((a, b) => a + b, 0);
const integers = (n, end, seed) => random(n, 0, end, seed).map(Math.floor);
const UNITS = { 1: 'u8', 2: 'f16', 4: 'i32', 8: 'i64' };

for (const unit of [1, 2, 4, 8]) {
  test(`index_select, cat, flip and dynamic_slice in units of ${unit} bytes`, async () => {
    const gpu = await open(),
      dtype = UNITS[unit],
      rows = 9,
      width = 5,
      x = integers(rows * width, 50),
      index = [3, 0, 8, 8, 1];
    const at = gpu.tensor(dtype, x),
      y = gpu.empty(dtype, index.length * width),
      index_errors = gpu.zeros('u32', 4);
    await gpu.run('index_select', {
      spec: [unit, DTYPE.i32],
      args: {
        y,
        x: at,
        index: gpu.i32(index),
        index_errors,
        n: y.length,
        inner: width,
        count: index.length,
        limit: rows,
      },
    });
    close(
      await gpu.read(y),
      index.flatMap((r) => x.slice(r * width, (r + 1) * width)),
      0,
      0,
    );

    const joined = gpu.empty(dtype, rows * (width + 2)),
      more = integers(rows * 2, 50, 2);
    await gpu.run('cat', {
      spec: [unit, 2],
      args: {
        y: joined,
        tensors: [at, gpu.tensor(dtype, more)],
        ends: [width, width + 2],
        n: joined.length,
        stride: width + 2,
      },
    });
    close(
      await gpu.read(joined),
      range(rows).flatMap((r) => [...x.slice(r * width, (r + 1) * width), ...more.slice(r * 2, r * 2 + 2)]),
      0,
      0,
    );

    const turned = gpu.empty(dtype, rows * width);
    await gpu.run('flip', {
      spec: [unit, 2],
      args: { x: at, y: turned, n: rows * width, first: width - 1, sizes: [rows, width], strides: [width, -1] },
    });
    close(
      await gpu.read(turned),
      range(rows).flatMap((r) => x.slice(r * width, (r + 1) * width).reverse()),
      0,
      0,
    );

    const part = gpu.empty(dtype, 3 * width);
    await gpu.run('dynamic_slice', {
      spec: [unit, 0],
      args: {
        y: part,
        x: at,
        start: gpu.i32([4]),
        n: 3 * width,
        count: 3,
        inner: width,
        last: rows - 3,
        outer_stride: rows * width,
        inner_stride: 1,
        stride: width,
      },
    });
    close(await gpu.read(part), x.slice(4 * width, 7 * width), 0, 0);
    const put = gpu.empty(dtype, rows * width);
    await gpu.run('dynamic_update_slice', {
      spec: [unit, 0],
      args: {
        y: put,
        x: at,
        update: part,
        start: gpu.i32([1]),
        n: rows * width,
        count: 3,
        inner: width,
        last: rows - 3,
        outer_stride: rows * width,
        inner_stride: 1,
        stride: width,
      },
    });
    close(await gpu.read(put), [...x.slice(0, width), ...x.slice(4 * width, 7 * width), ...x.slice(4 * width)], 0, 0);
  });

  test(`triangle and put_rows in units of ${unit} bytes`, async () => {
    const gpu = await open(),
      dtype = UNITS[unit],
      n = 7,
      x = integers(n * n, 50),
      y = gpu.empty(dtype, n * n);
    await gpu.run('triangle', {
      spec: [unit, 1],
      args: { x: gpu.tensor(dtype, x), y, n: n * n, height: n, width: n, x_strides: [0, n, 1], diagonal: 1 },
    });
    close(
      await gpu.read(y),
      x.map((v, i) => ((i % n) - Math.floor(i / n) >= 1 ? v : 0)),
      0,
      0,
    );
    const table = gpu.zeros(dtype, 4 * n);
    await gpu.run('put_rows', {
      spec: [unit],
      args: {
        y: table,
        source: gpu.tensor(dtype, x),
        places: gpu.i32([2, 0]),
        count: 2,
        width: n,
        row_step: n,
        step: 1,
      },
    });
    close(
      await gpu.read(table),
      [...x.slice(n, 2 * n), ...Array(n).fill(0), ...x.slice(0, n), ...Array(n).fill(0)],
      0,
      0,
    );
  });
}

test('gather reports an index outside and clamps it', async () => {
  const gpu = await open(),
    x = random(12),
    index = [2, 0, 7, 1],
    y = gpu.empty('f32', 4),
    index_errors = gpu.zeros('u32', 4);
  await gpu.run('gather', {
    spec: [4, DTYPE.i64, 2, 0],
    args: {
      y,
      x: gpu.f32(x),
      index: gpu.tensor('i64', index),
      index_errors,
      n: 4,
      limit: 3,
      sizes: [1, 4],
      strides: [4, 1],
    },
  });
  close(await gpu.read(y), [x[8], x[1], x[10], x[7]], 0, 0);
  close(await gpu.read(index_errors), [3, 7, 0, 3], 0, 0);
});

test('scatter_add and linear_index', async () => {
  const gpu = await open(),
    n = 6,
    index = [1, 5, 1, 0, 1],
    source = random(5),
    x = random(n, -1, 1, 2),
    y = gpu.empty('f32', n);
  await gpu.run('scatter_add_float', {
    spec: [1, DTYPE.i64, 1, 0],
    args: {
      y,
      x: gpu.f32(x),
      index: gpu.tensor('i64', index),
      source: gpu.f32(source),
      n,
      line: 1,
      sizes: [n],
      extents: [5],
    },
  });
  close(
    await gpu.read(y),
    x.map((v, i) => v + sum(source.filter((_, k) => index[k] === i))),
  );
  const places = gpu.empty('i32', 5);
  await gpu.run('linear_index', {
    spec: [DTYPE.i64, 1],
    args: { places, index: gpu.tensor('i64', index), n: 5, limit: n, factor: 10, sizes: [5], strides: [3] },
  });
  close(
    await gpu.read(places),
    index.map((v, i) => v * 10 + 3 * i),
    0,
    0,
  );
});

test('copy_words and test_ranges', async () => {
  const gpu = await open(),
    x = integers(300, 1000),
    y = gpu.empty('u32', 300),
    z = gpu.empty('u32', 300),
    from = gpu.tensor('u32', x);
  await gpu.run('copy_words', { args: { from, to: y, n: 300 }, groups: [2] });
  close(await gpu.read(y), x, 0, 0);
  await gpu.run('test_ranges', {
    spec: [64],
    args: { source: from, target: z, count: 300, factor: 3, addend: 7 },
    groups: [5],
  });
  close(
    await gpu.read(z),
    x.map((v) => v * 3 + 7),
    0,
    0,
  );
});

test('gradient of an embedding: rank, sums, merged segments', async () => {
  const gpu = await open(),
    count = 100,
    limit = 5,
    width = 12,
    index = integers(count, limit),
    grad = random(count * width, -1, 1, 2);
  const order = gpu.empty('i32', count),
    keys = gpu.empty('i32', count),
    y = gpu.zeros('f32', limit * width),
    segments = Math.ceil(count / 32);
  const partial = gpu.zeros('f32', 2 * segments * width),
    args = { y, grad: gpu.f32(grad), partial, order, keys, count, width };
  await gpu.run('embedding_rank', {
    spec: { LOCAL_SIZE: 256, DTYPE: DTYPE.i64 },
    args: { index: gpu.tensor('i64', index), order, keys, count, limit },
    groups: [Math.ceil(count / 32)],
  });
  close(
    await gpu.read(order),
    range(count).sort((a, b) => index[a] - index[b] || a - b),
    0,
    0,
  );
  await gpu.run('embedding_sum', { spec: { LOCAL_SIZE: 64 }, args, groups: [count, 1, 1] });
  await gpu.run('embedding_merge', { spec: { LOCAL_SIZE: 64 }, args, groups: [segments, 1, 1] });
  close(
    await gpu.read(y),
    range(limit * width).map((i) =>
      sum(
        range(count)
          .filter((t) => index[t] === Math.floor(i / width))
          .map((t) => grad[t * width + (i % width)]),
      ),
    ),
    1e-5,
    1e-5,
  );
});

for (const dtype of ['f32', 'i32']) {
  test(`sort_rows, largest_first and select_rows of ${dtype}`, async () => {
    const gpu = await open(),
      rows = 3,
      n = 50,
      x = random(rows * n, -100, 100).map(dtype === 'i32' ? Math.floor : (v) => v),
      at = gpu.tensor(dtype, x);
    const sorted = range(rows).flatMap((r) => range(n).sort((a, b) => x[r * n + a] - x[r * n + b] || a - b)),
      order = gpu.empty('i32', rows * n),
      keys = gpu.empty('i32', rows * n),
      values = gpu.empty(dtype, rows * n),
      indices = gpu.empty('i64', rows * n),
      sizes = { rows, n, padded: 64, kept: n };
    await gpu.run('sort_rows', {
      spec: [DTYPE[dtype], 0, 4, 0],
      args: { x: at, sorted: keys, places: order, ...sizes },
    });
    close(await gpu.read(order), sorted, 0, 0);
    await gpu.run('sort_rows', {
      spec: [DTYPE[dtype]],
      args: { x: at, sorted: values, places: indices, ...sizes },
    });
    close(await gpu.read(indices), sorted, 0, 0);
    close(
      await gpu.read(values),
      sorted.map((o, i) => x[Math.floor(i / n) * n + o]),
      0,
      0,
    );
    assert.ok(kernels.names().includes('select_rows'));
    if (dtype === 'f32') {
      const y = gpu.empty('i64', rows * 5);
      await gpu.run('largest_first', { args: { keys: at, y, rows, n, count: 5 }, groups: [rows] });
      close(
        await gpu.read(y),
        range(rows).flatMap((r) =>
          sorted
            .slice(r * n, (r + 1) * n)
            .reverse()
            .slice(0, 5),
        ),
        0,
        0,
      );
    }
    const few = gpu.empty('i32', rows * 4);
    await gpu.run('select_rows', {
      spec: [DTYPE[dtype], 1],
      args: { x: at, order: few, rows, row_length: n, n, tiles: 1, k: 4, padded_k: 8 },
      groups: [rows],
    });
    const chosen = await gpu.read(few);
    for (let r = 0; r < rows; ++r) {
      close(
        [...chosen.slice(r * 4, r * 4 + 4)].sort((a, b) => a - b),
        sorted
          .slice(r * n, (r + 1) * n)
          .reverse()
          .slice(0, 4)
          .sort((a, b) => a - b),
        0,
        0,
      );
    }
  });
}

test('radix sort without subgroups', async () => {
  const gpu = await open(),
    n = 9000,
    x = random(n, -1000, 1000).map((v) => Math.floor(v) / 8),
    tile = 4096,
    tiles = Math.ceil(n / tile);
  let [keys, order, sorted_keys, sorted_order] = range(4).map(() => gpu.empty('u32', n));
  const counts = gpu.empty('u32', 256 * tiles),
    totals = gpu.empty('u32', 256);
  await gpu.run('radix_keys', {
    spec: { DTYPE: 1 },
    args: { x: gpu.f32(x), keys, count: n, n },
    groups: [Math.ceil(n / 1024)],
  });
  for (let shift = 0; shift < 32; shift += 8) {
    await gpu.run('radix_count', { args: { keys, counts, rows: 1, n, tiles, shift }, groups: [tiles] });
    await gpu.run('radix_offsets', { args: { counts, totals, lines: 256, tiles }, groups: [256] });
    await gpu.run('radix_scatter', {
      args: {
        keys,
        order: shift === 0 ? null : order,
        sorted_keys,
        sorted_order,
        counts,
        totals,
        rows: 1,
        n,
        tiles,
        shift,
      },
      groups: [tiles],
    });
    [keys, order, sorted_keys, sorted_order] = [sorted_keys, sorted_order, keys, order];
  }
  close(
    await gpu.read(order),
    range(n).sort((a, b) => x[a] - x[b] || a - b),
    0,
    0,
  );
});

test('count_true, select_true and unravel', async () => {
  const gpu = await open(),
    n = 700,
    mask = integers(n, 2),
    tiles = 1,
    before = gpu.empty('i32', tiles),
    at = gpu.tensor('bool', mask),
    found = range(n).filter((i) => mask[i]);
  await gpu.run('count_true', { args: { mask: at, before, n, tiles } });
  close(await gpu.read(before), [found.length], 0, 0);
  const y = gpu.empty('i32', found.length),
    coordinates = gpu.empty('i64', 2 * found.length);
  await gpu.run('select_true', { args: { mask: at, before: gpu.i32([0]), y, n, tiles } });
  close(await gpu.read(y), found, 0, 0);
  await gpu.run('unravel', {
    spec: [2],
    args: { places: y, coordinates, n: found.length, sizes: [70, 10] },
    groups: [Math.ceil(found.length / 256)],
  });
  close(
    await gpu.read(coordinates),
    found.flatMap((i) => [Math.floor(i / 10), i % 10]),
    0,
    0,
  );
});
