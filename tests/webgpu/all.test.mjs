// What holds for every kernel: WebGPU takes its text, with and without atomics, in a heap of one and of three segments.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { kernels, open_device } from './harness.mjs';

test('all kernels together are small', () => {
  const bytes = gzipSync(JSON.stringify(kernels.bundle)).length;
  assert.ok(bytes < 400_000, `${bytes} bytes gzipped`);
});

test('what is left out has a reason', () => {
  for (const [name, reason] of Object.entries(kernels.bundle.missing)) {
    assert.match(reason, /^(64-bit integers|64-bit floats|cooperative matrices|subgroup operations)$/, name);
  }
});

for (const options of [{ segments: 1 }, { segments: 3 }, { segments: 1, atomic: true }]) {
  test(`every kernel is valid WGSL: ${JSON.stringify(options)}`, async () => {
    const { device } = await open_device(),
      wrong = [];
    for (const name of kernels.names()) {
      device.pushErrorScope('validation');
      device.createShaderModule({
        code: kernels.wgsl(name, [], { ...options, atomic: options.atomic || kernels.is_atomic(name) }),
      });
      const error = await device.popErrorScope();
      if (error) wrong.push(`${name}: ${error.message}`);
    }
    assert.deepEqual(wrong, []);
  });
}

test('kernels that store bytes are atomic for the values that ask for it', () => {
  const narrow = kernels.names().filter((name) => kernels.bundle.kernels[name].uses.includes('heap_set_bits'));
  assert.ok(narrow.length > 50);
  for (const name of narrow) {
    const { always, dtypes, units } = kernels.bundle.kernels[name].narrow;
    assert.ok(always || dtypes.length + units.length > 0, `nothing decides about ${name}`);
  }
  assert.equal(kernels.is_atomic('softmax', [256, 0, 0, 4, 3, 3, 1]), false, 'bf16 in, f32 out');
  assert.equal(kernels.is_atomic('softmax', [256, 0, 0, 4, 1, 1, 3]), true, 'bf16 out');
});
