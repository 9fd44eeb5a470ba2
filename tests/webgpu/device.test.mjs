// device/internal/webgpu/webgpu.mjs as C++ uses it, without C++: the heap, copies and fills, batches, programs, reads, errors.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { kernels, open_device } from './harness.mjs';
import { open_webgpu } from '../../device/internal/webgpu/webgpu.mjs';

let gpu;
async function open() {
  const { instance } = await open_device();
  return (gpu ??= await open_webgpu({ gpu: instance, read_kernels: () => kernels.bundle }));
}

async function read(device, ...ranges) {
  let bytes;
  const id = device.start_read(...ranges);
  assert.equal(await device.finish_read(id, (data) => (bytes = data.slice())), '');
  return bytes;
}
/// One dispatch with these words as arguments.
async function run(device, name, words, groups = 1) {
  const id = device.pipeline(name, [], name);
  assert.equal(await device.finish_building(), '');
  const block = new Uint8Array(256);
  new Uint32Array(block.buffer).set(words);
  device.submit(Uint32Array.of(id, groups, 1, 1, 0), block);
}
const pattern = (n, seed = 1) => Uint8Array.from({ length: n }, (_, i) => (i * 31 + seed * 17 + 5) & 255);

test('facts, and no device without an adapter', async () => {
  const device = await open(),
    facts = device.facts();
  assert.equal(facts.kind, 'software');
  assert.ok(facts.heap_bytes >= 128 << 20 && facts.workgroup_size >= 256 && facts.shared_bytes >= 16384);
  const none = { requestAdapter: async () => null };
  await assert.rejects(open_webgpu({ gpu: none, read_kernels: () => kernels.bundle }), /found no adapter/);
});

test('the heap keeps its content when it grows, and says when it cannot', async () => {
  const device = await open();
  assert.equal(await device.grow(1 << 16), true);
  device.write(4096, pattern(1024));
  assert.equal(await device.grow(1 << 20), true);
  device.write((1 << 20) - 1024, pattern(1024, 2));
  const both = await read(device, [4096, 1024], [(1 << 20) - 1024, 1024]);
  assert.deepEqual(both, Uint8Array.from([...pattern(1024), ...pattern(1024, 2)]));
  assert.equal(await device.grow(2 ** 40), false);
  assert.deepEqual(await read(device, [4096, 1024]), pattern(1024));
  assert.equal(device.take_error(), '');
});

test('copies of any bytes, also within a word, and within neighbours of what is copied', async () => {
  const device = await open();
  await device.grow(1 << 20);
  for (const [from, to, bytes] of [[0, 0, 4], [0, 1, 1], [1, 0, 2], [3, 2, 1], [2, 3, 9], [1, 1, 4099], [0, 3, 70001],
    [5, 0, 3]]) {
    const source = pattern(80000), target = pattern(80000, 3);
    device.write(65536, source);
    device.write(262144, target);
    await run(device, 'etna_copy_bytes', [65536 + from, 0, 262144 + to, 0, bytes], Math.ceil((bytes / 4 + 2) / 256));
    target.set(source.subarray(from, from + bytes), to);
    assert.deepEqual(await read(device, [262144, 80000]), target, `${bytes} bytes from ${from} to ${to}`);
  }
  // Six bytes to the next six: they share a word.
  device.write(65536, pattern(16));
  await run(device, 'etna_copy_bytes', [65536, 0, 65542, 0, 6]);
  const wanted = pattern(16);
  wanted.set(wanted.slice(0, 6), 6);
  assert.deepEqual(await read(device, [65536, 16]), wanted);
});

test('copies of words and fills, with fewer threads than words and under a mask', async () => {
  const device = await open();
  await device.grow(1 << 20);
  device.write(65536, pattern(40000));
  await run(device, 'etna_copy_words', [65536, 0, 262144, 0, 10000], 3);
  assert.deepEqual(await read(device, [262144, 40000]), pattern(40000));
  await run(device, 'etna_fill', [262144, 0, 9999, 0x01020304, 0xffffffff], 2);
  const words = new Uint32Array((await read(device, [262144, 40000])).buffer);
  assert.ok(words.subarray(0, 9999).every((w) => w === 0x01020304));
  assert.equal(words[9999], new Uint32Array(pattern(40000).buffer)[9999], 'the word behind');
  await run(device, 'etna_fill', [262144, 0, 1, 0xaabbccdd, 0x00ffff00]);
  assert.equal(new Uint32Array((await read(device, [262144, 4])).buffer)[0], 0x01bbcc04);
});

test('a program runs again with the arguments it was made with, also after the heap has grown', async () => {
  const device = await open();
  await device.grow(1 << 20);
  const fill = device.pipeline('etna_fill', [], 'fill');
  await device.finish_building();
  const blocks = new Uint8Array(512), words = new Uint32Array(blocks.buffer);
  words.set([65536, 0, 1, 7, 0xffffffff]);
  words.set([65540, 0, 1, 9, 0xffffffff], 64);
  const program = device.make_program(blocks), commands = Uint32Array.of(fill, 1, 1, 1, 0, fill, 1, 1, 1, 1);
  for (const bytes of [1 << 20, 1 << 21]) {
    await device.grow(bytes);
    device.write(65536, new Uint8Array(8));
    device.run_program(program, commands);
    assert.deepEqual([...new Uint32Array((await read(device, [65536, 8])).buffer)], [7, 9]);
  }
  device.drop_program(program);
  await device.finish();
  assert.equal(device.in_flight, 0);
});

test('reads arrive later, several at once, and may be dropped', async () => {
  const device = await open();
  await device.grow(1 << 20);
  const ids = [1, 2, 3].map((seed) => {
    device.write(65536, pattern(64, seed));
    return device.start_read([65536, 64]);
  });
  device.drop_read(ids[1]);
  while (!(await device.is_read(ids[2])));
  for (const [id, seed] of [[ids[0], 1], [ids[2], 3]]) {
    let bytes;
    assert.equal(await device.finish_read(id, (data) => (bytes = data.slice())), '');
    assert.deepEqual(bytes, pattern(64, seed));
  }
});

test('a kernel that is not there, or cannot be built, is told of', async () => {
  const device = await open();
  assert.equal(device.missing('softmax'), '');
  assert.match(device.missing('cast_f64'), /64-bit/);
  assert.match(device.missing('none'), /none of that name/);
  device.define_fused('broken', 'fn main() {\n  this is no WGSL;\n}');
  device.pipeline('broken', [], 'add');
  device.pipeline('softmax', [256, 0, 0, 4], 'softmax');
  assert.match(await device.finish_building(), /^add: the kernel broken cannot be built here: /);
  assert.equal(await device.finish_building(), '');
});

test('a fused kernel is put together from the rows that it names', () => {
  const text = kernels.fused(`fn at_x0(position : u32) -> u32 {
  return position;
}

@compute @workgroup_size(256u, 1u, 1u)
fn main(@builtin(global_invocation_id) id : vec3<u32>) {
  let x = fused_load_f(parameters[0u].xy, at_x0(id.x), 1u);
  fused_store_f(parameters[0u].zw, id.x, 1u, $row_f{a * b}(x, x, 0.0f));
}`);
  assert.match(text, /fn row_mul_f\(/);
  assert.doesNotMatch(text, /row_add_f|switch|atomic/);
  assert.throws(() => kernels.fused('fn main() {\n  $row_f{a ? b}(1.0f, 1.0f, 1.0f);\n}'), /no row/);
});
