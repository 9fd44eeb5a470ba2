// Copies and fills as kernels: WebGPU copies no buffer into itself, and fills with zeros only. Arguments as of any
// kernel (docs/webgpu.md).

const HEAD = (element) => `
@group(0) @binding(0) var<storage, read_write> heap : array<${element}>;
@group(0) @binding(1) var<uniform> parameters : array<vec4<u32>, 9>;
`;

/** Bits of `mask` become those of `value`. Arguments: byte address, 0, number of words, value, mask. */
const FILL = `${HEAD("u32")}
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id : vec3<u32>,
                                      @builtin(num_workgroups) groups : vec3<u32>) {
  let at = parameters[0].x >> 2u;
  let words = parameters[0].z;
  let value = parameters[0].w;
  let mask = parameters[1].x;
  for (var i = id.x; i < words; i += groups.x * 256u) {
    heap[at + i] = (heap[at + i] & ~mask) | (value & mask);
  }
}
`;

/** Whole words. Arguments: byte address of the source, 0, of the target, 0, words. */
const COPY_WORDS = `${HEAD("u32")}
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id : vec3<u32>,
                                      @builtin(num_workgroups) groups : vec3<u32>) {
  let source = parameters[0].x >> 2u;
  let sink = parameters[0].z >> 2u;
  let words = parameters[1].x;
  for (var i = id.x; i < words; i += groups.x * 256u) { heap[sink + i] = heap[source + i]; }
}
`;

/**
 * Any bytes: each thread puts one word of the target together. Source and target may share a word, so it is changed
 * by atomics, and only the target's bits of it. Arguments: byte address of the source, 0, of the target, 0, bytes.
 */
const COPY_BYTES = `${HEAD("atomic<u32>")}
fn byte_at(at : u32) -> u32 { return (atomicLoad(&heap[at >> 2u]) >> ((at & 3u) * 8u)) & 0xffu; }
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id : vec3<u32>,
                                      @builtin(num_workgroups) groups : vec3<u32>) {
  let source = parameters[0].x;
  let sink = parameters[0].z;
  let bytes = parameters[1].x;
  let first = sink >> 2u;
  let words = ((sink + bytes - 1u) >> 2u) - first + 1u;
  for (var i = id.x; i < words; i += groups.x * 256u) {
    var value = 0u;
    var mask = 0u;
    for (var k = 0u; k < 4u; k += 1u) {
      let at = (first + i) * 4u + k;
      if (at >= sink && at - sink < bytes) {
        value |= byte_at(source + (at - sink)) << (k * 8u);
        mask |= 0xffu << (k * 8u);
      }
    }
    if (mask == 0xffffffffu) {
      atomicStore(&heap[first + i], value);
    } else {
      atomicAnd(&heap[first + i], ~mask | value);
      atomicOr(&heap[first + i], value);
    }
  }
}
`;

export const BUILT_IN = { etna_fill: FILL, etna_copy_words: COPY_WORDS, etna_copy_bytes: COPY_BYTES };
