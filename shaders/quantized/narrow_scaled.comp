#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Rounds f32 to f16 after scaling by a power of two against overflow, for a gemm with f16 weights. A first pass finds
// the largest finite magnitude of each workgroup's part; the second scales the largest of all to [2^14, 2^15) and
// writes the factor that undoes this. Bytes-bound. Maxima do not depend on order, so the bits are always the same.
//
// variant: narrow_scaled
// variant: narrow_scaled_largest LARGEST

#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint WIDTH = 1;  // of loads and stores

layout(push_constant, scalar) uniform Push {
  uvec2 x, y, largest, factor;
  uint count, groups;  // groups of the first pass, at most 256
} p;

shared uint largest[256];

// Magnitudes compare like their bits.
uint magnitude(float x) {
  uint bits = floatBitsToUint(x) & 0x7fffffffu;
  return bits < 0x7f800000u ? bits : 0;
}

uint largest_of_all(uint own) {
  uint thread = gl_LocalInvocationID.x;
  largest[thread] = own;
  barrier();
  for (uint half_ = 128; half_ > 0; half_ /= 2) {
    if (thread < half_) largest[thread] = max(largest[thread], largest[thread + half_]);
    barrier();
  }
  return largest[0];
}

void main() {
  uint thread = gl_LocalInvocationID.x, first = (gl_WorkGroupID.x * 256 + thread) * 4;
  uint step = gl_NumWorkGroups.x * 1024;
#ifdef LARGEST
  uint own = 0;
  for (uint i = first; i < p.count; i += step) {
    vec4 x = load_vector(p.x, i, min(4, p.count - i), F32, WIDTH);
    // The last vector may extend past the end.
    [[unroll]] for (uint j = 1; j < 4; ++j)
      if (i + j >= p.count) x[j] = 0.0;
    own = max(max(max(own, magnitude(x.x)), magnitude(x.y)), max(magnitude(x.z), magnitude(x.w)));
  }
  own = largest_of_all(own);
  if (thread == 0) BufferI32(p.largest).v[gl_WorkGroupID.x] = int(own);
#else
  uint bits = largest_of_all(thread < p.groups ? uint(BufferI32(p.largest).v[thread]) : 0);
  // 2^-shift is a normal number for every shift.
  int shift = bits == 0 ? 0 : max(int(bits >> 23) - 127 - 14, -100);
  float scale = uintBitsToFloat(uint(127 - shift) << 23);
  if (gl_WorkGroupID.x == 0 && thread == 0) BufferF32(p.factor).v[0] = uintBitsToFloat(uint(127 + shift) << 23);
  for (uint i = first; i < p.count; i += step) {
    uint count = min(4, p.count - i);
    store_vector(p.y, i, count, F16, WIDTH, load_vector(p.x, i, count, F32, WIDTH) * scale);
  }
#endif
}
