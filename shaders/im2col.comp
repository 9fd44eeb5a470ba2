#version 460
#extension GL_GOOGLE_include_directive : require
// The patches of a convolution: y[group, pixel, tap, channel] = x[image, pixel * stride - padding + tap * dilation,
// group, channel], 0 outside x. Bytes-bound: x is read from caches for all but its first tap. A thread owns a unit of
// channels of a pixel and goes through up to 32 taps, so it finds its pixel by division once. Units are moved as bytes;
// they are as wide as the channels of a group allow.
//
// variant: im2col

#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint UNIT = 4;     // bytes
layout(constant_id = 1) const uint REVERSED = 0; // 1: the last tap is stored first

layout(push_constant, scalar) uniform Push {
  uvec2 x, y;
  uint n;                    // units of all pixels
  uint units, group_units;   // of a pixel; of one of its groups
  uint taps, row, group;     // units from pixel to pixel and from group to group
  uvec3 in_size;             // depth, height, width of x
  uvec2 kernel;              // height, width
  uvec3 out_size;            // of y
  uvec3 stride;
  ivec3 padding;
  uvec3 dilation;
} p;

void store_zero(uint to) {
  switch (UNIT) {
    case 16: BufferQuads(p.y).v[to] = uvec4(0); break;
    case 8: BufferWords(p.y).v[to] = uvec2(0); break;
    case 4: BufferI32(p.y).v[to] = 0; break;
    default: BufferU16(p.y).v[to] = uint16_t(0); break;
  }
}

void main() {
  uint k = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (k >= p.n) return;
  uint pixel = k / p.units, unit = k - pixel * p.units;
  uint above = pixel / p.out_size.z, image_depth = above / p.out_size.y, image = image_depth / p.out_size.x;
  uvec3 at =
      uvec3(image_depth - image * p.out_size.x, above - image_depth * p.out_size.y, pixel - above * p.out_size.z);
  ivec3 first = ivec3(at * p.stride) - p.padding;
  uint group = unit / p.group_units;
  uint to = group * p.group + pixel * p.row + (unit - group * p.group_units);
  uint image_start = image * p.in_size.x;
  uint tap = gl_WorkGroupID.z * 32, end = min(tap + 32, p.taps);
  uint row = tap / p.kernel.y;
  uvec3 t = uvec3(row / p.kernel.x, row % p.kernel.x, tap - row * p.kernel.y);
  for (; tap < end; ++tap) {
    uvec3 from = uvec3(first + ivec3(t * p.dilation));
    uint slot = to + (REVERSED != 0 ? p.taps - 1 - tap : tap) * p.group_units;
    if (all(lessThan(from, p.in_size))) {
      uint source = ((image_start + from.x) * p.in_size.y + from.y) * p.in_size.z + from.z;
      copy_unit(p.y, slot, p.x, source * p.units + unit, UNIT);
    } else {
      store_zero(slot);
    }
    if (++t.z == p.kernel.y) {
      t.z = 0;
      if (++t.y == p.kernel.x) t.y = 0, ++t.x;
    }
  }
}
