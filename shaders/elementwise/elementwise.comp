#version 460
#extension GL_GOOGLE_include_directive : require
// Every elementwise op, cast and strided copy. Bytes-bound: each operand is read once, the result is written once. The
// op and the dtypes are specialization constants, so one module per compute type serves all of elementwise.def; the
// compiler removes the switch.
//
// A workgroup of 256 covers 1024 elements: four per thread, 256 apart, so that neighbouring threads access neighbouring
// elements. If all operands are contiguous, the index arithmetic is skipped (STRIDED = 0). Others have at most four
// dimensions, merged by the host, and do only the divisions that these need.
//
// Float operands whose last dimension is dense or broadcast are read four elements at a time (RUNS > 0): one index
// computation and one load per operand. A thread loads all of its runs before it stores the first, since the compiler
// cannot know that they do not overlap. Two or more runs keep enough bytes in flight even for 16-bit dtypes.
//
// variant: elementwise_float T=float T_FLOAT
// variant: elementwise_int T=int T_INT
// variant: elementwise_i64 T=int64_t T_I64
// variant: elementwise_pairs T=uvec2 T_PAIR
// variant: cast_f64 T=double T_F64 CAST_ONLY

#include "dtype.glsl"
#ifndef CAST_ONLY
#include "math.glsl"
#endif
#ifdef T_FLOAT
#extension GL_EXT_control_flow_attributes : require
#include "vectors.glsl"
#endif

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint OP = 0;
layout(constant_id = 1) const uint STRIDED = 0;  // number of dimensions; 0: all operands are contiguous
layout(constant_id = 2) const uint SCALAR = 0;  // 1, 2, 3: operand a, b, c is p.scalar
layout(constant_id = 3) const uint OUT_DTYPE = 1;
layout(constant_id = 4) const uint A_DTYPE = 1;
layout(constant_id = 5) const uint B_DTYPE = 1;
layout(constant_id = 6) const uint C_DTYPE = 1;
layout(constant_id = 7) const uint ARITY = 1;
layout(constant_id = 8) const uint RUNS = 0;  // runs of four elements per thread; 0: element by element

layout(push_constant, scalar) uniform Push {
  uvec2 y, a, b, c;
  uvec2 scalar;
  uint n;
  uvec3 sizes;  // of the last three of four dimensions
  uvec4 y_strides, a_strides, b_strides, c_strides;
} p;

#include "elementwise.glsl"

uint at(uvec4 index, uvec4 strides) {
  return index.x * strides.x + index.y * strides.y + index.z * strides.z + index.w * strides.w;
}

uvec4 index_of(uint i) {
  uvec4 index = uvec4(0, 0, 0, i);
  if (STRIDED > 1) index.zw = uvec2(i / p.sizes.z, i % p.sizes.z);
  if (STRIDED > 2) index.yz = uvec2(index.z / p.sizes.y, index.z % p.sizes.y);
  if (STRIDED > 3) index.xy = uvec2(index.y / p.sizes.x, index.y % p.sizes.x);
  return index;
}

#ifdef T_FLOAT
// The values of an operand at elements i ... i + 3, in order.
vec4 load_run(uint i, uvec2 address, uvec4 strides, uint dtype) {
  if (STRIDED == 0) return load_vector(address, i, 4, dtype, 4);
  uint from = at(index_of(i), strides);
  return strides.w == 0 ? vec4(load_float(address, from, dtype)) : load_vector(address, from, 4, dtype, 4);
}

void compute_runs(uint first) {
  const uint runs = RUNS > 0 ? RUNS : 1;
  vec4 a[runs], b[runs], c[runs];
  [[unroll]] for (uint k = 0; k < RUNS; ++k) {
    uint i = (first + k * 256) * 4;
    a[k] = b[k] = c[k] = vec4(immediate(p.scalar));
    if (i >= p.n) continue;
    if (SCALAR != 1) a[k] = load_run(i, p.a, p.a_strides, A_DTYPE);
    if (ARITY >= 2 && SCALAR != 2) b[k] = load_run(i, p.b, p.b_strides, B_DTYPE);
    if (ARITY >= 3 && SCALAR != 3) c[k] = load_run(i, p.c, p.c_strides, C_DTYPE);
  }
  [[unroll]] for (uint k = 0; k < RUNS; ++k) {
    uint i = (first + k * 256) * 4;
    if (i >= p.n) continue;
    vec4 y;
    [[unroll]] for (uint e = 0; e < 4; ++e) y[e] = compute(a[k][e], b[k][e], c[k][e]);
    store_vector(p.y, STRIDED == 0 ? i : at(index_of(i), p.y_strides), 4, OUT_DTYPE, 4, y);
  }
}
#endif

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
#ifdef T_FLOAT
  if (RUNS > 0) {
    compute_runs(group * RUNS * 256 + gl_LocalInvocationID.x);
    return;
  }
#endif
  for (uint k = 0; k < 4; ++k) {
    uint i = group * 1024 + k * 256 + gl_LocalInvocationID.x;
    if (i >= p.n) return;
    uint iy = i, ia = i, ib = i, ic = i;
    if (STRIDED != 0) {
      uvec4 index = index_of(i);
      iy = at(index, p.y_strides);
      ia = at(index, p.a_strides);
      ib = at(index, p.b_strides);
      ic = at(index, p.c_strides);
    }
    T a = SCALAR == 1 ? immediate(p.scalar) : load_value(p.a, ia, A_DTYPE);
    T b = T(0), c = T(0);
    if (ARITY >= 2) b = SCALAR == 2 ? immediate(p.scalar) : load_value(p.b, ib, B_DTYPE);
    if (ARITY >= 3) c = SCALAR == 3 ? immediate(p.scalar) : load_value(p.c, ic, C_DTYPE);
    store_value(p.y, iy, OUT_DTYPE, compute(a, b, c));
  }
}
