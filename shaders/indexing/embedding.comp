#version 460
#extension GL_GOOGLE_include_directive : require
// The gradient of embedding, alone or added to an existing table, without atomics and with a fixed order of addition.
// Three kernels; the last two are bytes-bound:
//
// embedding_rank sorts the tokens by the row they select: a token's position is the number of tokens with a smaller
// row, or with the same row and an earlier position. It compares all pairs, from shared memory: 16384 tokens make 2.7e8
// integer comparisons, which take less time than the passes of a radix sort and their barriers. A workgroup ranks 32
// tokens against eight slices of the others, so that 1024 tokens already make 8192 threads. embedding_sum has one
// workgroup per position of the sorted list. Where a run of equal rows starts, or at a multiple of 32, it adds up the
// run as far as the next multiple of 32. This split keeps a frequent token from becoming a chain of thousands of
// additions. embedding_merge adds the chunks of the runs that were split. `partial` holds two rows per chunk: that of
// the run that continues from the previous chunk, and that of the run that continues into the next.
//
// variant: embedding_rank RANK
// variant: embedding_sum SUM
// variant: embedding_merge MERGE

#include "index.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 1;  // of the index in RANK, otherwise of the gradient

const uint SEGMENT = 32;
uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

#ifdef RANK
const uint TOKENS = 32, SLICES = 8, TILE = 1024;

layout(push_constant, scalar) uniform Push {
  uvec2 index, order, keys, index_errors;
  uint count, limit;
} p;

shared uvec4 tile[TILE / 4];
shared uint counts[TOKENS * SLICES];

// @param index_errors null except for the thread that reports an error about this index
uint key_at(uint i, uvec2 index_errors) {
  return i < p.count ? load_index(p.index, i, DTYPE, p.limit, index_errors) : 0xffffffffu;
}
uint key_at(uint i) { return key_at(i, uvec2(0u)); }

void main() {
  uint thread = gl_LocalInvocationID.x, token = group_index() * TOKENS + thread % TOKENS, slice = thread / TOKENS;
  uint key = key_at(token, slice == 0 ? p.index_errors : uvec2(0u)), before = 0;
  for (uint base = 0; base < p.count; base += TILE) {
    uint at = base + 4 * thread;
    tile[thread] = uvec4(key_at(at), key_at(at + 1), key_at(at + 2), key_at(at + 3));
    barrier();
    for (uint j = 0; j < TILE / SLICES / 4; ++j) {
      uint quad = slice * (TILE / SLICES / 4) + j, first = base + 4 * quad;
      uvec4 other = tile[quad];
      // Equal keys count if they come earlier: test other < key + 1 for those, other < key for the rest.
      uvec4 bound = uvec4(key) + uvec4(lessThan(uvec4(first, first + 1, first + 2, first + 3), uvec4(token)));
      uvec4 smaller = uvec4(lessThan(other, bound));
      before += smaller.x + smaller.y + smaller.z + smaller.w;
    }
    barrier();
  }
  counts[thread] = before;
  barrier();
  if (slice == 0 && token < p.count) {
    uint place = 0;
    for (uint s = 0; s < SLICES; ++s) place += counts[s * TOKENS + thread];
    BufferI32(p.order).v[place] = int(token);
    BufferI32(p.keys).v[place] = int(key);
  }
}

#else

layout(constant_id = 2) const uint ADDS = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 y, grad, partial, order, keys;
  uint count, width;
} p;

uint key_at(uint place) { return uint(BufferI32(p.keys).v[place]); }
void give(uint at, float sum) { store_float(p.y, at, DTYPE, ADDS != 0 ? load_float(p.y, at, DTYPE) + sum : sum); }
// True if the run at the start of a segment continues from the previous segment.
bool comes_in(uint segment) { return segment > 0 && key_at(segment * SEGMENT) == key_at(segment * SEGMENT - 1); }

#ifdef SUM
shared uint rows[SEGMENT];

void main() {
  uint place = group_index();
  if (place >= p.count) return;
  uint key = key_at(place), segment = place / SEGMENT, end = min((segment + 1) * SEGMENT, p.count);
  bool continued = place > 0 && key_at(place - 1) == key;
  if (ETNA_UNIFORM(continued && place % SEGMENT != 0)) return;
  if (gl_LocalInvocationID.x < SEGMENT) {
    uint other = place + gl_LocalInvocationID.x;
    rows[gl_LocalInvocationID.x] =
        other < end && key_at(other) == key ? uint(BufferI32(p.order).v[other]) : 0xffffffffu;
  }
  barrier();
  uint length = 1;
  while (length < SEGMENT && rows[length] != 0xffffffffu) ++length;
  bool goes_on = place + length == end && end < p.count && key_at(end) == key;
  for (uint k = 0; k < 4; ++k) {
    uint column = (gl_WorkGroupID.z * 4 + k) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (column >= p.width) return;
    float sum = load_float(p.grad, rows[0] * p.width + column, DTYPE);
    for (uint r = 1; r < length; ++r) sum += load_float(p.grad, rows[r] * p.width + column, DTYPE);
    if (continued || goes_on) {
      BufferF32(p.partial).v[(2 * segment + (continued ? 0 : 1)) * p.width + column] = sum;
    } else {
      give(key * p.width + column, sum);
    }
  }
}
#endif

#ifdef MERGE
void main() {
  uint first = group_index(), end = (first + 1) * SEGMENT;
  if (end >= p.count) return;
  uint key = key_at(end);
  bool goes_on = key_at(end - 1) == key, from_before = comes_in(first) && key_at(first * SEGMENT) == key;
  if (!goes_on || from_before) return;
  for (uint k = 0; k < 4; ++k) {
    uint column = (gl_WorkGroupID.z * 4 + k) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (column >= p.width) return;
    float sum = BufferF32(p.partial).v[(2 * first + 1) * p.width + column];
    for (uint s = first + 1; s * SEGMENT < p.count && key_at(s * SEGMENT) == key; ++s) {
      sum += BufferF32(p.partial).v[2 * s * p.width + column];
    }
    give(key * p.width + column, sum);
  }
}
#endif
#endif
