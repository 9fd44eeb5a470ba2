#version 460
#extension GL_GOOGLE_include_directive : require
// Adds up patches at their positions (col2im): x[image, place, channel] = bias[channel] + the sum over taps of
// patches[group, pixel, tap, channel], pixel * stride - padding + tap * dilation = place. Bytes-bound. Each thread
// gathers the values for four channels of a place, in the order of the taps: no atomics, and the same bits every time.
//
// variant: col2im

#include "vectors.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint FROM = F32;  // dtype of the patches
layout(constant_id = 1) const uint TO = F32;
layout(constant_id = 2) const uint BIAS = F32;
layout(constant_id = 3) const uint HAS_BIAS = 0;
layout(constant_id = 4) const uint WIDTH = 4;   // of loads and stores

layout(push_constant, scalar) uniform Push {
  uvec2 patches, bias, x;
  uint places, groups, channels;  // channels of a group
  uint row, group;                // elements from pixel to pixel and from group to group
  uvec3 in_size;                  // of x: depth, height, width
  uvec3 kernel;
  uvec3 out_size;                 // of the pixels that have patches
  uvec3 stride;
  ivec3 padding;
  uvec3 dilation;
} p;

void main() {
  uint quads = (p.channels + 3) / 4, a_place = quads * p.groups;
  uint k = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  uint place = k / a_place, rest = k - place * a_place, group = rest / quads, c = (rest - group * quads) * 4;
  if (place >= p.places) return;
  uint count = min(4, p.channels - c);
  uint above = place / p.in_size.z, image_depth = above / p.in_size.y, image = image_depth / p.in_size.x;
  uvec3 at = uvec3(image_depth - image * p.in_size.x, above - image_depth * p.in_size.y, place - above * p.in_size.z);
  vec4 sum = vec4(0.0);
  uint tap = 0;
  for (uint d = 0; d < p.kernel.x; ++d) {
    int z = int(at.x) + p.padding.x - int(d * p.dilation.x);
    bool hits_z = z >= 0 && uint(z) % p.stride.x == 0 && uint(z) / p.stride.x < p.out_size.x;
    if (!hits_z) {
      tap += p.kernel.y * p.kernel.z;
      continue;
    }
    for (uint h = 0; h < p.kernel.y; ++h) {
      int y = int(at.y) + p.padding.y - int(h * p.dilation.y);
      bool hits_y = y >= 0 && uint(y) % p.stride.y == 0 && uint(y) / p.stride.y < p.out_size.y;
      if (!hits_y) {
        tap += p.kernel.z;
        continue;
      }
      uint line = ((image * p.out_size.x + uint(z) / p.stride.x) * p.out_size.y + uint(y) / p.stride.y) * p.out_size.z;
      for (uint w = 0; w < p.kernel.z; ++w, ++tap) {
        int x = int(at.z) + p.padding.z - int(w * p.dilation.z);
        if (x < 0 || uint(x) % p.stride.z != 0 || uint(x) / p.stride.z >= p.out_size.z) continue;
        uint from = group * p.group + (line + uint(x) / p.stride.z) * p.row + tap * p.channels + c;
        sum += load_vector(p.patches, from, count, FROM, WIDTH);
      }
    }
  }
  if (HAS_BIAS != 0) sum += load_vector(p.bias, group * p.channels + c, count, BIAS, WIDTH);
  store_vector(p.x, (place * p.groups + group) * p.channels + c, count, TO, WIDTH, sum);
}
