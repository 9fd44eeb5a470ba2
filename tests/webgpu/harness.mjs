// Runs translated kernels in node on Dawn: a heap of one or several buffers, a uniform block per dispatch.
//   ETNA_WGSL   kernels.json of the build (build/wgsl/kernels.json)
//   ETNA_DAWN   the folder that holds node_modules/webgpu (build/dawn, tools/get-dawn)
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { binding_of, Kernels, parameters } from '../../shaders/webgpu/kernels.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const dawn = process.env.ETNA_DAWN ?? join(root, 'build/dawn');
export const kernels = new Kernels(
  JSON.parse(readFileSync(process.env.ETNA_WGSL ?? join(root, 'build/wgsl/kernels.json'))),
);

// etna::Activation, and the rows of elementwise.def in the order of their numbers; each activation makes two of them.
const tables = join(root, 'tables');
const activations = readFileSync(join(tables, 'activations.def'), 'utf8');
export const ACTIVATION = Object.fromEntries(
  [...activations.matchAll(/^ETNA_ACTIVATION\((\d+), (\w+),/gm)].map(([, number, name]) => [name, parseInt(number)]),
);
const of_activations = activations.replace(
  /^ETNA_ACTIVATION\(\d+, (\w+), (?:ETNA_NO_MODULE|ETNA_MODULE\([^)]*\)), (\w+),/gm,
  'ETNA_ELEMENTWISE($1, 1, $2,\nETNA_ELEMENTWISE($1_backward, 2, $2,',
);
export const ROWS = [
  ...readFileSync(join(tables, 'elementwise.def'), 'utf8')
    .replace('#include "activations.def"', () => of_activations)
    .matchAll(/^ETNA_ELEMENTWISE\((\w+), (\w+), (\w+),/gm),
].map(([, name, arity, result], row) => ({ row, name, arity: parseInt(arity), result }));

// etna::DType.
export const DTYPE = { f64: 0, f32: 1, f16: 2, bf16: 3, i64: 4, i32: 5, i8: 6, u8: 7, bool: 8, none: 99 };
const ARRAYS = {
  f32: Float32Array,
  f16: Uint16Array,
  bf16: Uint16Array,
  i64: BigInt64Array,
  i32: Int32Array,
  u32: Uint32Array,
  i8: Int8Array,
  u8: Uint8Array,
  bool: Uint8Array,
};

export const to_bf16 = (x) => {
  const u = new Uint32Array(new Float32Array([x]).buffer)[0];
  return (u + 0x7fff + ((u >>> 16) & 1)) >>> 16;
};
export const from_bf16 = (b) => new Float32Array(new Uint32Array([b << 16]).buffer)[0];
export function from_f16(h) {
  const e = (h >> 10) & 31,
    m = h & 1023,
    s = h & 0x8000 ? -1 : 1;
  return s * (e === 0 ? m * 2 ** -24 : e === 31 ? (m ? NaN : Infinity) : (1 + m / 1024) * 2 ** (e - 15));
}
export function to_f16(x) {
  // The nearest of all 63488 finite numbers by bisection: they are ordered by their bits.
  const a = Math.abs(x),
    sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
  let low = 0,
    high = 0x7bff;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (from_f16(middle) <= a) low = middle;
    else high = middle - 1;
  }
  const below = a - from_f16(low),
    above = from_f16(low + 1) - a;
  return sign | (above < below || (above === below && low & 1) ? low + 1 : low);
}

class Gpu {
  constructor(device, segments, bytes) {
    this.device = device;
    this.segments = Array.from({ length: segments }, () =>
      device.createBuffer({
        size: bytes,
        usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
      }),
    );
    this.bytes = bytes;
    this.reset();
    this.pipelines = new Map();
  }

  reset() {
    // Address 0 is null.
    this.top = this.segments.map(() => 256);
    this.next = 0;
  }

  /// Memory for `length` elements, filled with 0xcd bytes. Segments take turns.
  empty(dtype, length, { skew = 0 } = {}) {
    const bytes = length * ARRAYS[dtype].BYTES_PER_ELEMENT,
      segment = this.next++ % this.segments.length;
    const at = this.top[segment] + skew;
    this.top[segment] = (at + bytes + 511) & ~255;
    assert.ok(this.top[segment] <= this.bytes, 'the heap is full');
    const first = at & ~3,
      all = new Uint8Array(((at + bytes + 3) & ~3) - first).fill(0xcd);
    this.device.queue.writeBuffer(this.segments[segment], first, all);
    return { dtype, length, segment, at, bytes };
  }

  tensor(dtype, values, options) {
    const t = this.empty(dtype, values.length, options),
      array = new ARRAYS[dtype](values.length);
    for (let i = 0; i < values.length; ++i) {
      array[i] =
        dtype === 'bf16'
          ? to_bf16(values[i])
          : dtype === 'f16'
            ? to_f16(values[i])
            : dtype === 'i64'
              ? BigInt(values[i])
              : values[i];
    }
    return this.write(t, new Uint8Array(array.buffer));
  }
  f32(values, options) {
    return this.tensor('f32', values, options);
  }
  i32(values) {
    return this.tensor('i32', values);
  }
  zeros(dtype, length) {
    return this.tensor(dtype, Array(length).fill(0));
  }
  write(t, data) {
    const first = t.at & ~3,
      all = new Uint8Array(((t.at + data.length + 3) & ~3) - first);
    all.set(data, t.at - first);
    this.device.queue.writeBuffer(this.segments[t.segment], first, all);
    return t;
  }

  async read(t) {
    const first = t.at & ~3,
      size = ((t.at + t.bytes + 3) & ~3) - first;
    const staging = this.device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(this.segments[t.segment], first, staging, 0, size);
    this.device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const array = new ARRAYS[t.dtype](staging.getMappedRange().slice(t.at - first, t.at - first + t.bytes));
    staging.destroy();
    if (t.dtype === 'bf16') return Float32Array.from(array, from_bf16);
    if (t.dtype === 'f16') return Float32Array.from(array, from_f16);
    return array;
  }

  /// An address's bytes, as u32s.
  address(t, offset = 0) {
    return t ? [t.at + offset, t.segment] : [0, 0];
  }

  async pipeline(name, constants) {
    const key = `${name} ${constants}`;
    if (!this.pipelines.has(key)) {
      const module = this.device.createShaderModule({
        code: kernels.wgsl(name, constants, { segments: this.segments.length }),
      });
      this.device.pushErrorScope('validation');
      const pipeline = this.device.createComputePipeline({ layout: 'auto', compute: { module } });
      const error = await this.device.popErrorScope();
      assert.equal(error, null, `${name}: ${error?.message}`);
      this.pipelines.set(key, pipeline);
    }
    return this.pipelines.get(key);
  }

  /// @param spec constants in order of their ids, or by their names
  /// @param args values of the shader's arguments by their names: tensors, numbers, arrays
  async run(name, { spec = [], args = {}, groups = [1] }) {
    const kernel = kernels.bundle.kernels[name];
    assert.ok(kernel, `no kernel ${name}: ${kernels.missing(name)}`);
    const block = new ArrayBuffer(128),
      words = new Uint32Array(block),
      floats = new Float32Array(block);
    const unknown = new Set(Object.keys(args));
    if (!Array.isArray(spec)) spec = by_name(name, spec);
    for (const p of kernel.parameters) {
      unknown.delete(p.name);
      const given = args[p.name];
      if (given === undefined || given === null) continue;
      const list = [given].flat().flatMap((v) => (typeof v === 'object' ? this.address(v) : [v]));
      list.forEach((v, k) => {
        if (/^(float|vec)/.test(p.type)) floats[p.offset / 4 + k] = v;
        else words[p.offset / 4 + k] = v;
      });
    }
    assert.deepEqual([...unknown], [], `${name} has no such arguments`);
    const pipeline = await this.pipeline(name, spec);
    const uniform = this.device.createBuffer({ size: 144, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
    this.device.queue.writeBuffer(uniform, 0, parameters(new Uint8Array(block)));
    const used = (pipeline.etna_used ??= used_bindings(kernels.wgsl(name, spec, { segments: this.segments.length })));
    const entries = this.segments.map((buffer, s) => ({ binding: binding_of(s), resource: { buffer } }));
    entries.push({ binding: 1, resource: { buffer: uniform } });
    const encoder = this.device.createCommandEncoder(),
      pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(
      0,
      this.device.createBindGroup({
        layout: pipeline.getBindGroupLayout(0),
        entries: entries.filter((e) => used.has(e.binding)),
      }),
    );
    pass.dispatchWorkgroups(...groups);
    pass.end();
    this.device.queue.submit([encoder.finish()]);
  }
}

function by_name(name, values) {
  const list = [],
    left = new Set(Object.keys(values));
  for (const [id, constant, , value] of kernels.bundle.kernels[name].specialization) {
    if (id < 1000) list[id] = values[constant] ?? value;
    left.delete(constant);
  }
  assert.deepEqual([...left], [], `${name} has no such constants`);
  return Array.from(list, (v) => v ?? 0);
}

// With layout 'auto', only bindings that the kernel uses may be bound.
function used_bindings(text) {
  const used = new Set();
  for (const [, binding, name] of text.matchAll(/@binding\((\d)\) var<[^>]*> (\w+)/g)) {
    if (text.match(new RegExp(`\\b${name}\\b`, 'g')).length > 1) used.add(Number(binding));
  }
  return used;
}

let opened = null;
export async function open_device() {
  return (opened ??= (async () => {
    const require = createRequire(join(dawn, 'package.json'));
    const { create, globals } = await import(pathToFileURL(require.resolve('webgpu')));
    Object.assign(globalThis, globals);
    const instance = create([]),
      adapter = await instance.requestAdapter();
    assert.ok(adapter, 'Dawn finds no adapter (tools/get-dawn; VK_DRIVER_FILES)');
    const {
      maxComputeInvocationsPerWorkgroup,
      maxComputeWorkgroupStorageSize,
      maxStorageBufferBindingSize,
      maxBufferSize,
    } = adapter.limits;
    const device = await adapter.requestDevice({
      requiredLimits: {
        maxComputeInvocationsPerWorkgroup,
        maxComputeWorkgroupStorageSize,
        maxStorageBufferBindingSize,
        maxBufferSize,
      },
    });
    return { instance, adapter, device }; // all three must stay
  })());
}
const heaps = new Map();
export async function open({ segments = 1, bytes = 1 << 24 } = {}) {
  const { device } = await open_device();
  if (!heaps.has(segments)) heaps.set(segments, new Gpu(device, segments, bytes));
  const gpu = heaps.get(segments);
  gpu.reset();
  return gpu;
}

/// Numbers in [low, high), the same in every run.
export function random(length, low = -1, high = 1, seed = 1) {
  let state = (seed * 0x9e3779b9) >>> 0;
  return Array.from({ length }, () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.fround(low + (high - low) * (((t ^ (t >>> 14)) >>> 0) / 4294967296));
  });
}
export const range = (n) => Array.from({ length: n }, (_, i) => i);

/// Every element within absolute + relative * |expected|.
export function close(actual, expected, relative = 1e-5, absolute = 1e-6) {
  assert.equal(actual.length, expected.length);
  for (let i = 0; i < actual.length; ++i) {
    const a = Number(actual[i]),
      e = Number(expected[i]);
    if (Number.isNaN(e) ? Number.isNaN(a) : a === e || Math.abs(a - e) <= absolute + relative * Math.abs(e)) continue;
    assert.fail(`element ${i} is ${a}, not ${e}`);
  }
}
