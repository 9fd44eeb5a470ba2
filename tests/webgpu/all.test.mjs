// What holds for every kernel: WebGPU takes its text, in a heap of one and of three segments.
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

for (const segments of [1, 3]) {
  test(`every kernel is valid WGSL in a heap of ${segments}, and nothing in it is out of reach`, async () => {
    const { device } = await open_device(),
      wrong = [];
    for (const name of kernels.names()) {
      device.pushErrorScope('validation');
      const module = device.createShaderModule({ code: kernels.wgsl(name, [], { segments }) });
      const error = await device.popErrorScope();
      if (error) wrong.push(`${name}: ${error.message}`);
      for (const { message } of (await module.getCompilationInfo()).messages) wrong.push(`${name}: ${message}`);
    }
    assert.deepEqual(wrong, []);
  });
}

test('kernels that store bytes are atomic for the values that ask for it', () => {
  assert.equal(kernels.is_atomic('softmax', [256, 0, 0, 4, 3, 3, 1]), false, 'bf16 in, f32 out');
  assert.equal(kernels.is_atomic('softmax', [256, 0, 0, 4, 1, 1, 3]), true, 'bf16 out');
});
