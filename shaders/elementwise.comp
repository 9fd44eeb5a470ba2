#version 460
#extension GL_GOOGLE_include_directive : require
// Every elementwise op, cast and strided copy. Bytes-bound: each operand is read once, the result written once. The op and
// the dtypes are specialization constants, so one module a compute type serves all of elementwise.def; the switch folds away.
//
// A workgroup of 256 covers 1024 elements, four a thread and 256 apart, so that neighbouring threads touch neighbouring
// elements. Operands that are all contiguous skip the index arithmetic (STRIDED = 0); others come with at most four
// dimensions, merged by the host.
//
// variant: elementwise_float T=float T_FLOAT
// variant: elementwise_int T=int T_INT
// variant: elementwise_i64 T=int64_t T_I64
// variant: cast_f64 T=double T_F64 CAST_ONLY

#include "dtype.glsl"
#ifndef CAST_ONLY
#include "math.glsl"
#endif

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint OP = 0;
layout(constant_id = 1) const uint STRIDED = 0;
layout(constant_id = 2) const uint SCALAR = 0;  // 1, 2, 3: operand a, b, c is p.scalar
layout(constant_id = 3) const uint OUT_DTYPE = 1;
layout(constant_id = 4) const uint A_DTYPE = 1;
layout(constant_id = 5) const uint B_DTYPE = 1;
layout(constant_id = 6) const uint C_DTYPE = 1;
layout(constant_id = 7) const uint ARITY = 1;

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

void main() {
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  for (uint k = 0; k < 4; ++k) {
    uint i = group * 1024 + k * 256 + gl_LocalInvocationID.x;
    if (i >= p.n) return;
    uint iy = i, ia = i, ib = i, ic = i;
    if (STRIDED != 0) {
      uvec4 index;
      uint rest = i;
      index.w = rest % p.sizes.z, rest /= p.sizes.z;
      index.z = rest % p.sizes.y, rest /= p.sizes.y;
      index.y = rest % p.sizes.x, index.x = rest / p.sizes.x;
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
