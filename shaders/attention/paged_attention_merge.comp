#version 460
#extension GL_GOOGLE_include_directive : require
// Combines the partial results of paged attention. A workgroup owns a head of a query; chunks that the query does not
// attend to have written nothing and are not read. Bound by latency: weights are computed once, a chunk a thread, so
// that the loads of values depend on nothing; threads that a head leaves over sum other chunks. A sink adds to the sum
// of weights.
//
// variant: paged_attention_merge

#include "math.glsl"
#include "paged.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint BALANCED = 0;  // chunks are those of balanced_span()
layout(constant_id = 2) const uint SINKS = 0;     // there are sinks
layout(constant_id = 3) const uint COLUMNS = 2;   // of a thread, THREADS apart

layout(push_constant, scalar) uniform Push {
  uvec2 partial, positions, sinks, y;
  // heads: heads of queries per head of keys; limit: as in oldest_of()
  uint steps, groups, heads, chunks, chunk, size, width, limit;
} p;

const uint THREADS = 128;
shared float weights[THREADS];  // of a tile of chunks; first their maxima
shared float sums[THREADS];     // of the weights of each chunk; at last the values of each lane

void main() {
  uint thread = gl_LocalInvocationID.x, row = gl_WorkGroupID.x / (p.groups * p.heads);
  uint h = gl_WorkGroupID.x % p.heads, group = gl_WorkGroupID.x / p.heads % p.groups;
  int past = ETNA_UNIFORM(BufferI32(p.positions).v[row / p.steps]), position = past + int(row % p.steps);
  uint end = position < 0 ? 0 : min(uint(position) + 1, p.width);
  uint begin = oldest_of(uint(max(position, 0)), p.limit);
  Span span = Span(0, p.chunk);
  if (BALANCED != 0) span = balanced_span(past, p.steps, p.limit, p.width, p.chunks, p.chunk);
  uint first = (max(begin, span.base) - span.base) / span.size;
  uint last = (max(end, span.base) - span.base + span.size - 1) / span.size;
  uint head = (row * p.groups + group) * p.heads, stride = p.size + 2, from = head * p.chunks + h;

  float most = uintBitsToFloat(0xff800000u);
  for (uint c = first + thread; c < last; c += THREADS)
    most = m_max(most, BufferF32(p.partial).v[(from + c * p.heads) * stride + p.size]);
  weights[thread] = most;
  barrier();
  for (uint half_of = THREADS / 2; half_of > 0; half_of /= 2) {
    if (thread < half_of) weights[thread] = m_max(weights[thread], weights[thread + half_of]);
    barrier();
  }
  most = weights[0];
  bool none = most == uintBitsToFloat(0xff800000u);
  float sink = SINKS != 0 ? BufferF32(p.sinks).v[group * p.heads + h] : 0.0;
  if (SINKS != 0 && !none) most = m_max(most, sink);

  uint lanes = max(THREADS / p.size, 1), lane = thread / p.size, column = lanes > 1 ? thread % p.size : thread;
  float value[COLUMNS], total = 0.0;
  for (uint i = 0; i < COLUMNS; ++i) value[i] = 0.0;
  for (uint c0 = first; c0 < last; c0 += THREADS) {
    barrier();
    uint at = (from + (c0 + thread) * p.heads) * stride + p.size;
    if (c0 + thread < last) {
      weights[thread] = none ? 0.0 : exp(BufferF32(p.partial).v[at] - most);
      sums[thread] = BufferF32(p.partial).v[at + 1];
    }
    barrier();
    for (uint c = lanes > 1 ? lane : 0; c < min(last - c0, THREADS); c += lanes) {
      total += weights[c] * sums[c];
      for (uint i = 0; i < COLUMNS; ++i) {
        uint own = column + i * THREADS;
        if (own < p.size && lane < lanes)
          value[i] += weights[c] * BufferF32(p.partial).v[(from + (c0 + c) * p.heads) * stride + own];
      }
    }
  }
  barrier();
  if (lanes > 1) {
    weights[thread] = total;
    sums[thread] = value[0];
    barrier();
    total = value[0] = 0.0;
    for (uint l = 0; l < lanes; ++l) {
      total += weights[l * p.size];
      value[0] += sums[l * p.size + column];
    }
  }
  if (SINKS != 0) total += exp(sink - most);
  for (uint i = 0; i < COLUMNS; ++i) {
    uint own = column + i * THREADS;
    if (own < p.size && (lanes == 1 || lane == 0))
      store_float(p.y, (head + h) * p.size + own, DTYPE, none ? 0.0 : value[i] / total);
  }
}
