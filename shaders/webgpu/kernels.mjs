// The bundle of translated kernels (the build's wgsl/kernels.json), and the WGSL of a kernel for values of its
// specialization constants. Uses only the language, so it runs in browsers and in node. See docs/webgpu.md.

import { Declarations, parse_declaration, specialize } from './specialize.mjs';

const TYPES = { uint: 'u32', int: 'i32', float: 'f32', bool: 'bool' };

export class Kernels {
  #declarations;

  /// @param bundle the content of kernels.json
  constructor(bundle) {
    this.bundle = bundle;
    this.#declarations = new Declarations(bundle.declarations);
  }

  names() {
    return Object.keys(this.bundle.kernels);
  }
  /// The reason why a kernel is missing; undefined for one that exists.
  missing(name) {
    return this.bundle.missing[name];
  }

  /// The text of a kernel, without branches that the constants rule out.
  /// @param constants values of specialization constants 0, 1, 2 ..., all as u32
  /// @param segments number of buffers of the heap
  wgsl(name, constants = [], { segments = 1 } = {}) {
    const kernel = this.bundle.kernels[name];
    if (!kernel) throw new Error(`no kernel ${name}: ${this.missing(name) ?? 'unknown'}`);
    const parts = kernel.declarations.map((d) => this.#declarations.at(d));
    return this.#text([...this.#constants(kernel, constants).map(parse_declaration), ...parts], kernel.uses, segments);
  }

  /// The text of a fused kernel: declarations separated by empty lines, including `main`, that call functions of the
  /// kernel `fused`. `$row_f{a + b}(` and `$row_i{a + b}(` call rows of the elementwise table.
  fused(text, { segments = 1 } = {}) {
    const library = this.bundle.kernels.fused;
    const named = text.replace(/\$row_([fi])\{([^}]*)\}\(/g, (_, type, expression) => {
      const row = this.bundle.rows[expression];
      if (!row) throw new Error(`no row of the elementwise table is ${expression}`);
      return `row_${row}_${type}(`;
    });
    const own = named.trim().split('\n\n').map(parse_declaration);
    const parts = library.declarations.map((d) => this.#declarations.at(d)).filter((one) => one.name !== 'main');
    const constants = this.#constants(library, []).map(parse_declaration);
    return this.#text([...constants, ...parts, ...own], library.uses, segments);
  }

  #constants(kernel, values) {
    const lines = kernel.specialization.map(
      ([id, constant, type]) => `const ${constant} : ${TYPES[type]} = ${literal(value_of(kernel, id, values), type)};`,
    );
    kernel.sizes.forEach((size, i) => lines.push(`const size_${i} : u32 = ${size};`));
    return lines;
  }

  #text(parts, uses, segments) {
    const body = specialize(parts);
    const used = uses.filter((use) => new RegExp(`\\b${use}\\(`).test(body));
    return [...heap_text(used, segments), body].join('\n') + '\n';
  }

  /// True if a kernel with these constants stores less than a u32, or adds to memory atomically. Then its heap consists
  /// of atomics.
  is_atomic(name, constants = []) {
    return this.wgsl(name, constants).includes('array<atomic<u32>>;');
  }
}

function value_of(kernel, id, constants) {
  const constant = kernel.specialization.find((s) => s[0] === id);
  return id < constants.length ? constants[id] : constant[3];
}

function literal(value, type) {
  switch (type) {
    case 'uint':
      return `${value >>> 0}u`;
    case 'int':
      return `${value | 0}i`;
    case 'bool':
      return value ? 'true' : 'false';
    default:
      return `bitcast<f32>(${value >>> 0}u)`;
  }
}

/// The number of the binding of a segment: 0, 2, 3 ...; 1 is the uniform block.
export const binding_of = (segment) => (segment === 0 ? 0 : segment + 1);

// The text that replaces the functions of heap.glsl whose bodies are placeholders.
function heap_text(uses, segments) {
  const atomic = uses.some((use) => /^heap_(add|or|max|set_bits)$/.test(use));
  const lines = [],
    element = atomic ? 'atomic<u32>' : 'u32';
  for (let s = 0; s < segments; ++s) {
    lines.push(`@group(0) @binding(${binding_of(s)}) var<storage, read_write> heap_${s} : array<${element}>;`);
  }
  lines.push('@group(0) @binding(1) var<uniform> parameters : array<vec4<u32>, 9>;');
  // `body(heap)` for the segment of the address.
  const choose = (body) => {
    if (segments === 1) return body('heap_0');
    const cases = Array.from({ length: segments - 1 }, (_, k) => `case ${k + 1}u: { ${body(`heap_${k + 1}`)} }`);
    return `switch a.y { ${cases.join(' ')} default: { ${body('heap_0')} } }`;
  };
  const at = '(a.x >> 2u) + i',
    bits_at = '(a.x + byte) >> 2u';
  const functions = {
    heap_word: [
      'a : vec2<u32>, i : u32',
      'u32',
      (h) => (atomic ? `return atomicLoad(&${h}[${at}]);` : `return ${h}[${at}];`),
    ],
    heap_set_word: [
      'a : vec2<u32>, i : u32, value : u32',
      '',
      (h) => (atomic ? `atomicStore(&${h}[${at}], value);` : `${h}[${at}] = value;`),
    ],
    heap_set_bits: [
      'a : vec2<u32>, byte : u32, mask : u32, bits : u32',
      '',
      (h) =>
        atomic
          ? `atomicAnd(&${h}[${bits_at}], ~mask); atomicOr(&${h}[${bits_at}], bits);`
          : `${h}[${bits_at}] = (${h}[${bits_at}] & ~mask) | bits;`,
    ],
    heap_add: ['a : vec2<u32>, i : u32, value : u32', 'u32', (h) => `return atomicAdd(&${h}[${at}], value);`],
    heap_or: ['a : vec2<u32>, i : u32, value : u32', 'u32', (h) => `return atomicOr(&${h}[${at}], value);`],
    heap_max: ['a : vec2<u32>, i : u32, value : u32', 'u32', (h) => `return atomicMax(&${h}[${at}], value);`],
    heap_zero: ['', 'u32', null, 'return parameters[8].x;'],
    heap_barrier: ['', '', null, 'storageBarrier();'],
    heap_uniform_word: ['value : u32', 'u32', null, 'heap_slot = value; return workgroupUniformLoad(&heap_slot);'],
    packed_dot: [
      'a : i32, b : i32, format : i32',
      'i32',
      null,
      'return dot4I8Packed(bitcast<u32>(a), bitcast<u32>(b));',
    ],
  };
  if (uses.includes('heap_uniform_word')) lines.push('var<workgroup> heap_slot : u32;');
  for (const name of uses) {
    const [list, result, by_segment, body] = functions[name];
    lines.push(`fn ${name}(${list})${result ? ` -> ${result}` : ''} { ${body ?? choose(by_segment)} }`);
  }
  return lines;
}

/// The uniform block of one dispatch: at most 128 bytes of arguments, then zeros.
export const PARAMETER_BYTES = 144;
export function parameters(bytes) {
  if (bytes.length > 128) throw new Error(`${bytes.length} bytes of arguments; at most 128 fit`);
  const block = new Uint8Array(PARAMETER_BYTES);
  block.set(bytes);
  return block;
}
