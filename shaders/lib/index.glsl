// Indices into a dimension, read from i32 or i64. An index out of range is reported to the host, which throws at its
// next wait. It is also clamped, so that nothing outside a tensor is read or written.
#ifndef ETNA_INDEX_GLSL
#define ETNA_INDEX_GLSL

#include "dtype.glsl"

ETNA_BUFFER_ALIGNED(BufferReport, uvec4, 16);

// The low and the high u32 of an index.
uvec2 load_index_u32s(uvec2 address, uint i, uint dtype) {
  if (dtype == I64) return BufferWords(address).v[i];
  int low = BufferI32(address).v[i];
  return uvec2(uint(low), low < 0 ? 0xffffffffu : 0u);
}

bool index_inside(uvec2 value, uint limit) { return value.y == 0u && value.x < limit; }

// One store of 16 bytes, so that reports of different threads do not mix.
// @param index_errors null on a backend that collects no reports
void report_index(uvec2 index_errors, uint position, uvec2 value, uint limit) {
  if (index_errors != uvec2(0u)) BufferReport(index_errors).v[0] = uvec4(position + 1u, value, limit);
}

// An index that was loaded before, in [0, limit).
uint checked_index(uvec2 value, uint i, uint limit, uvec2 index_errors) {
  if (index_inside(value, limit)) return value.x;
  report_index(index_errors, i, value, limit);
  return int(value.y) < 0 ? 0u : limit - 1u;
}

// An index in [0, limit).
uint load_index(uvec2 address, uint i, uint dtype, uint limit, uvec2 index_errors) {
  return checked_index(load_index_u32s(address, i, dtype), i, limit, index_errors);
}

#endif
