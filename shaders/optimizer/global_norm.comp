#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The norm of many tensors taken as one vector, and scaling them down to a bound. Bytes-bound: every tensor is read
// once. Deterministic: a workgroup sums a chunk of 8192 elements, 32 per thread, then by a tree in shared memory; one
// workgroup then sums the chunks the same way. Squares of elements times 2^-80 and 2^63 are summed as well; the norm is
// computed from them if the plain sum of squares leaves f32. Scaling reads the norm on the device first: if it does not
// exceed the bound, nothing else is read or written.
//
// global_norm_control combines the norms of an optimizer's gradients and derives the factor for the gradients, or that
// the step is skipped. The step reads that result in its own pass (tensor/ops/optimizer/internal/optimizer.h,
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
#include "row_scale.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint CHUNK = 8192;
layout(constant_id = 2) const uint WIDTH = 1;  // 4 if every tensor is aligned to four elements
layout(constant_id = 3) const uint ORDER = 2;  // 1, 2, 0: largest absolute value
layout(constant_id = 4) const uint LOSS_SCALE = 0;  // 1: there is a loss scale, 2: the gradients still include it

layout(push_constant, scalar) uniform Push {
  Rows rows;
  uint count, chunks;
  Scalars partial, norm;  // partial: three sums of squares of each chunk, or one number
  Scalars loss_scale;
  float max_norm;
} p;

#ifdef APART
const uint TO = 1;
#else
const uint TO = 0;
#endif

#ifndef SCALE
shared vec3 sums[256];  // the second and third are used only for squares

vec3 combine(vec3 a, vec3 b) { return ORDER != 0 ? a + b : vec3(m_max(a.x, b.x), 0.0, 0.0); }
vec3 term(float x) {
  if (ORDER != 2) return vec3(abs(x), 0.0, 0.0);
  vec3 each = vec3(x, x * kDown, x * kUp);
  return each * each;
}
float root(vec3 squares) {
  if (!(squares.x < kLargeSquares)) return sqrt(squares.y) / kDown;
  return squares.x > 8.271806125530277e-25 ? sqrt(squares.x) : sqrt(squares.z) / kUp;
}

void reduce(vec3 sum) {
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
  vec3 sum = vec3(0.0);
  for (uint i = gl_LocalInvocationID.x; i < p.chunks; i += 256) {
    vec3 next = vec3(p.partial.v[ORDER == 2 ? 3 * i : i], 0.0, 0.0);
    if (ORDER == 2) next.yz = vec2(p.partial.v[3 * i + 1], p.partial.v[3 * i + 2]);
    sum = combine(sum, next);
  }
  reduce(sum);
  if (gl_LocalInvocationID.x != 0) return;
  float total = ORDER == 2 ? root(sums[0]) : sums[0].x;
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
  vec3 four[4] = vec3[4](vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0));  // partial sums
  for (uint i = begin + id * 4; i < middle; i += 1024) {
    vec4 x = load_vector(row.address[0], i, 4, dtype, 4);
    [[unroll]] for (uint k = 0; k < 4; ++k) four[k] = combine(four[k], term(x[k]));
  }
  for (uint i = middle + id; i < end; i += 256) {
    float x = load_float(row.address[0], i, dtype);
    four[0] = combine(four[0], term(x));
  }
  reduce(combine(combine(four[0], four[1]), combine(four[2], four[3])));
  if (id == 0 && ORDER != 2) p.partial.v[chunk] = sums[0].x;
  if (id < 3 && ORDER == 2) p.partial.v[3 * chunk + id] = sums[0][id];
#endif
#endif
}
