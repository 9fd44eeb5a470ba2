#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The norm of many tensors taken as one vector, and scaling them down to a bound. Bytes-bound: every tensor is read
// once. Deterministic: a workgroup sums a chunk of 8192 elements, 32 per thread, then by a tree in shared memory; one
// workgroup then sums the chunks the same way. Scaling reads the norm on the device first: if it does not exceed the
// bound, nothing else is read or written.
//
// global_norm_control reduces the norms of an optimizer's gradients to one and derives from it the factor for the
// gradients, or that the step is skipped. The step reads that result in its own pass (tensor/multi_tensor.h,
// StepControl).
//
// variant: global_norm_chunks CHUNKS
// variant: global_norm_total TOTAL
// variant: global_norm_control TOTAL CONTROL
// variant: scale_to_norm SCALE
// variant: unscale SCALE UNSCALE
// variant: multiply_all SCALE APART

#include "math.glsl"
#include "multi_tensor.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint CHUNK = 8192;
layout(constant_id = 2) const uint WIDTH = 1;  // 4 if every tensor is aligned to four elements
layout(constant_id = 3) const uint ORDER = 2;  // 1, 2, 0: largest absolute value
layout(constant_id = 4) const uint LOSS_SCALE = 0;  // 1: there is a loss scale, 2: gradients still include it

layout(push_constant, scalar) uniform Push {
  Rows rows;
  uint count, chunks;
  Scalars partial, norm;
  Scalars loss_scale;
  float max_norm;
} p;

#ifdef APART
const uint TO = 1;
#else
const uint TO = 0;
#endif

#ifndef SCALE
shared float sums[256];

float combine(float a, float b) { return ORDER != 0 ? a + b : m_max(a, b); }

void reduce(float sum) {
  uint thread = gl_LocalInvocationID.x;
  sums[thread] = sum;
  barrier();
  for (uint half_ = 128; half_ > 0; half_ /= 2) {
    if (thread < half_) sums[thread] = combine(sums[thread], sums[thread + half_]);
    barrier();
  }
}
#endif

void main() {
#ifdef TOTAL
  float sum = 0.0;
  for (uint i = gl_LocalInvocationID.x; i < p.chunks; i += 256) sum = combine(sum, p.partial.v[i]);
  reduce(sum);
  if (gl_LocalInvocationID.x != 0) return;
  float total = ORDER == 2 ? sqrt(sums[0]) : sums[0];
#ifdef CONTROL
  float inverse = LOSS_SCALE == 2 ? 1.0 / p.loss_scale.v[0] : 1.0, norm = total * inverse;
  float clipped = p.max_norm / (norm + 1e-6);  // NaN stays NaN
  bool finite = (floatBitsToUint(total) & 0x7f800000u) != 0x7f800000u, skip = LOSS_SCALE != 0 && !finite;
  p.norm.v[0] = p.max_norm > 0.0 && !(clipped >= 1.0) ? inverse * clipped : inverse;
  p.norm.v[1] = norm;
  if (skip) p.norm.v[2] += 1.0;
  p.norm.v[3] = skip ? 1.0 : 0.0;
  if (skip) p.loss_scale.v[2] = 1.0;
#else
  p.norm.v[0] = total;
#endif
#else
#ifdef APART
  float factor = p.norm.v[0];
#elif defined(UNSCALE)
  float factor = 1.0 / p.loss_scale.v[0];
#elif defined(SCALE)
  float factor = p.max_norm / (p.norm.v[0] + 1e-6);
  if (ETNA_UNIFORM(factor >= 1.0)) return;
#endif
  uint chunk = group_index();
  if (chunk >= p.chunks) return;
  Row row = p.rows.v[find_row(p.rows, p.count, chunk)];
  uint dtype = DTYPE == MIXED ? row.dtype[0] : DTYPE;
  uint begin = (chunk - row.first_chunk) * CHUNK, end = min(begin + CHUNK, row.elements);
  uint id = gl_LocalInvocationID.x, middle = vectors_end(begin, end, WIDTH);
#ifdef SCALE
  for (uint i = begin + id * 4; i < middle; i += 1024) {
    store_vector(row.address[TO], i, 4, dtype, 4, load_vector(row.address[0], i, 4, dtype, 4) * factor);
  }
  for (uint i = middle + id; i < end; i += 256)
    store_float(row.address[TO], i, dtype, load_float(row.address[0], i, dtype) * factor);
#else
  vec4 four = vec4(0.0);  // partial sums
  for (uint i = begin + id * 4; i < middle; i += 1024) {
    vec4 x = load_vector(row.address[0], i, 4, dtype, 4);
    x = ORDER == 2 ? x * x : abs(x);
    [[unroll]] for (uint k = 0; k < 4; ++k) four[k] = combine(four[k], x[k]);
  }
  for (uint i = middle + id; i < end; i += 256) {
    float x = load_float(row.address[0], i, dtype);
    four.x = combine(four.x, ORDER == 2 ? x * x : abs(x));
  }
  reduce(combine(combine(four.x, four.y), combine(four.z, four.w)));
  if (id == 0) p.partial.v[chunk] = sums[0];
#endif
#endif
}
