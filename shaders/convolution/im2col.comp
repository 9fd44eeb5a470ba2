#version 460
#extension GL_GOOGLE_include_directive : require
// The patches of a convolution (im2col): y[group, pixel, tap, channel] = x[image, pixel * stride - padding + tap *
// dilation, group, channel], 0 outside x. Bytes-bound: x is read from caches for all but its first tap. Elements are
// moved as bytes.
//
// im2col: a thread owns a unit of channels of a pixel and visits up to 32 taps, so it divides only once to find its
// pixel. Units are as wide as the channels of a group allow.
//
// im2col_few: for few channels, where such units would be narrow and far from each other. A thread writes 16 bytes of a
// row, its neighbour the next 16; a table in shared memory gives the source of each element of a row. x may have any
// strides.
//
// variant: im2col
// variant: im2col_few FEW

#include "units.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint UNIT = 4;     // bytes per unit; FEW: bytes per element
layout(constant_id = 1) const uint REVERSED = 0; // 1: the last tap is stored first

#ifdef FEW
layout(push_constant, scalar) uniform Push {
  uvec2 x, y;
  uint n, row_units;         // units of 16 bytes: in total, per pixel
  uint row, depth, taps, channels;  // elements of a row; of these, elements before the padding; taps * channels = depth
  uvec3 in_size;
  uvec2 kernel;
  uvec3 out_size;
  uvec3 stride;
  ivec3 padding;
  uvec3 dilation;
  uint x_strides[5];         // image, depth, height, width, channel
} p;

const uint LONGEST = 1024;
shared uint offsets[LONGEST];  // relative to the first element of a patch
shared uint places[LONGEST];   // depth, height and width relative to it, 10 bits each

uint element(uint e, uvec3 first, uint base) {
  uint place = places[e];
  uvec3 at = first + uvec3(place >> 20, (place >> 10) & 1023u, place & 1023u);
  if (e >= p.depth || any(greaterThanEqual(at, p.in_size))) return 0u;
  uint from = base + offsets[e];
  return UNIT == 4 ? uint(BufferI32(p.x).v[from]) : uint(BufferU16(p.x).v[from]);
}

void main() {
  for (uint e = gl_LocalInvocationID.x; e < p.row; e += 256) {
    uint tap = e / p.channels, channel = e - tap * p.channels;
    if (REVERSED != 0) tap = p.taps - 1 - tap;
    uint row = tap / p.kernel.y;
    uvec3 at = uvec3(row / p.kernel.x, row % p.kernel.x, tap - row * p.kernel.y) * p.dilation;
    places[e] = at.x << 20 | at.y << 10 | at.z;
    offsets[e] = at.x * p.x_strides[1] + at.y * p.x_strides[2] + at.z * p.x_strides[3] + channel * p.x_strides[4];
  }
  barrier();
  uint start = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 1024 + gl_LocalInvocationID.x;
  for (uint k = 0; k < 4; ++k) {
    uint i = start + k * 256;
    if (i >= p.n) return;
    uint pixel = i / p.row_units, unit = i - pixel * p.row_units;
    uint above = pixel / p.out_size.z, image_depth = above / p.out_size.y, image = image_depth / p.out_size.x;
    uvec3 at =
        uvec3(image_depth - image * p.out_size.x, above - image_depth * p.out_size.y, pixel - above * p.out_size.z);
    uvec3 first = at * p.stride - uvec3(p.padding);  // wraps below 0; adding the tap's offset wraps back
    uint base = image * p.x_strides[0] + first.x * p.x_strides[1] + first.y * p.x_strides[2] + first.z * p.x_strides[3];
    uvec4 words;
    for (uint w = 0; w < 4; ++w) {
      words[w] = UNIT == 4 ? element(unit * 4 + w, first, base)
                           : element(unit * 8 + 2 * w, first, base) | element(unit * 8 + 2 * w + 1, first, base) << 16;
    }
    BufferQuads(p.y).v[i] = words;
  }
}
#else
layout(push_constant, scalar) uniform Push {
  uvec2 x, y;
  uint n;                    // units of all pixels
  uint units, group_units;   // per pixel; per group of a pixel
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
#endif
