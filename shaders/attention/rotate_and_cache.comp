#version 460
#extension GL_GOOGLE_include_directive : require
// Norm and rotation of queries and keys; writes keys and values into the paged cache. A few kilobytes per token, so
// latency-bound. A workgroup owns a head of a row.
//
// variant: rotate_and_cache

#include "math.glsl"
#include "paged.glsl"
#include "row_scale.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint CACHE_DTYPE = 1;
layout(constant_id = 2) const uint INTERLEAVED = 0;
layout(constant_id = 3) const uint NORMED = 0;  // dtype of the norms' weights + 1; 0: no norms
layout(constant_id = 4) const uint QUERY_DTYPE = 1;    // of the queries that are written

const uint MOST = 1024;

layout(push_constant, scalar) uniform Push {
  uvec2 qkv, frequencies, table, positions, query_norm, key_norm, q, keys, values;
  uint steps, heads, kv_heads, all, size, pairs, width, blocks;  // all: heads of a row; width: columns of the table
  float eps, magnitude;
} p;

shared float row[MOST];
shared vec2 sums[64];  // of squares of x, and of x · 2^-80

void main() {
  uint thread = gl_LocalInvocationID.x;
  uint r = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, head = r % p.all, step = r / p.all % p.steps;
  uint batch = r / p.all / p.steps;
  int position = BufferI32(p.positions).v[batch] + int(step);
  bool query = head < p.heads, key = !query && head < p.heads + p.kv_heads;
  vec2 squares = vec2(0.0);
  for (uint i = thread; i < p.size; i += 64) {
    float x = load_float(p.qkv, r * p.size + i, DTYPE);
    row[i] = x;
    squares += vec2(x * x, (x * kDown) * (x * kDown));
  }
  uvec2 norm = query ? p.query_norm : p.key_norm;
  sums[thread] = squares;
  barrier();
  if (NORMED != 0 && (query || key) && norm != uvec2(0)) {
    vec2 total = vec2(0.0);
    for (uint i = 0; i < 64; ++i) total += sums[i];
    total /= float(p.size);
    float fit = total.x < kLargeSquares ? 1.0 : kDown;
    float scale = 1.0 / sqrt((fit == 1.0 ? total.x : total.y) + p.eps * fit * fit);
    for (uint i = thread; i < p.size; i += 64) row[i] = row[i] * fit * scale * load_float(norm, i, NORMED - 1);
  }
  barrier();
  if (query || key) {
    for (uint i = thread; i < p.pairs; i += 64) {
      float angle = float(position) * BufferF32(p.frequencies).v[i];
      float c = m_cos(angle) * p.magnitude, s = m_sin(angle) * p.magnitude;
      uint first = INTERLEAVED != 0 ? 2 * i : i, second = INTERLEAVED != 0 ? first + 1 : first + p.pairs;
      float u = row[first], v = row[second];
      row[first] = u * c - v * s;
      row[second] = v * c + u * s;
    }
  }
  barrier();
  if (query) {
    uint to = ((batch * p.steps + step) * p.heads + head) * p.size;
    for (uint i = thread; i < p.size; i += 64) store_float(p.q, to + i, QUERY_DTYPE, row[i]);
    return;
  }
  if (position < 0 || uint(position) / CACHE_BLOCK >= p.width) return;
  int block = BufferI32(p.table).v[batch * p.width + uint(position) / CACHE_BLOCK];
  if (block < 0 || uint(block) >= p.blocks) return;
  uint row_bytes = cache_row_bytes(p.size, CACHE_DTYPE), slot = uint(position) % CACHE_BLOCK;
  uvec2 to = block_address(key ? p.keys : p.values, uint(block), p.kv_heads, (head - p.heads) % p.kv_heads, row_bytes);
  if (CACHE_DTYPE != U8) {
    for (uint i = thread; i < p.size; i += 64) store_float(to, slot * p.size + i, CACHE_DTYPE, row[i]);
    return;
  }
  // Each thread writes pairs of quants, so that no two threads write to the same 16 bits.
  for (uint pair = thread; pair < p.size / 2; pair += 64) {
    uint first = pair / 16 * 32;
    float most = 0.0;
    bool finite = true;
    for (uint i = 0; i < 32; ++i) {
      float x = row[first + i];
      finite = finite && !m_isnan(x) && !m_isinf(x);
      most = max(most, abs(x));
    }
    uint bits = finite ? float_to_half(most / 127.0) : 0x7e00u;
    float rounded = half_to_float(bits), inverse = finite && rounded > 0.0 ? 1.0 / rounded : 0.0;
    uint at = (slot * (p.size / 32) + pair / 16) * 17;
    if (pair % 16 == 0) BufferU16(to).v[at] = uint16_t(bits);
    int low = 0, high = 0;
    if (finite) {
      low = int(clamp(roundEven(row[2 * pair] * inverse), -127.0, 127.0));
      high = int(clamp(roundEven(row[2 * pair + 1] * inverse), -127.0, 127.0));
    }
    BufferU16(to).v[at + 1 + pair % 16] = uint16_t(uint(low & 255) | uint(high & 255) << 8);
  }
}
