#version 460
#extension GL_GOOGLE_include_directive : require
// Convolutions with few channels per group, where a gemm would multiply mostly zeros; a depthwise convolution has one.
// Bytes- and cache-bound: x (for the gradient, g) is read once for each tap, from caches.
//
//   convolution          y[pixel, j] = bias[j] + sum over taps and i of x[place, group of j, i] * weight[tap, i, j].
//                        A thread owns a result; neighbours own neighbouring channels. With BACKWARD, pixels are places
//                        of x, and taps find the pixels of y that read them: the gradient by x.
//   convolution_weight   partial[chunk, tap, i, k] = sum over a chunk of pixels of g[pixel, k] * x[place, group, i].
//                        A thread owns a weight and a chunk; chunks are added up afterwards, in order.
//
// variant: convolution
// variant: convolution_weight WEIGHT

#include "vectors.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 0) const uint X = F32;
layout(constant_id = 1) const uint Y = F32;     // dtype of the result; with WEIGHT, of g
layout(constant_id = 2) const uint W = F32;     // dtype of the weight
layout(constant_id = 3) const uint BIAS = F32;
layout(constant_id = 4) const uint HAS_BIAS = 0;
layout(constant_id = 5) const uint BACKWARD = 0;

layout(push_constant, scalar) uniform Push {
  uvec2 x, weight, bias, y;
  uint n;                          // results
  uint pixels;                     // with WEIGHT: of a chunk; and in total
  uint all_pixels;
  uint channels, per_group, from;  // of the result; of a group of the result, of a group of x
  uvec3 x_size, kernel, y_size;    // depth, height, width of x, the kernel and the result (with WEIGHT: g)
  uvec3 stride;
  ivec3 padding;
  uvec3 dilation;
} p;

// The position of tap t of a pixel along one dimension; at or above `size`: outside.
uint place(uint at, uint t, int padding, uint stride, uint dilation, uint size) {
  if (BACKWARD == 0) return uint(int(at * stride) - padding + int(t * dilation));
  int z = int(at) + padding - int(t * dilation);
  return z < 0 || uint(z) % stride != 0 ? size : uint(z) / stride;
}

#ifdef WEIGHT

void main() {
  uint k = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 128 + gl_LocalInvocationID.x;
  if (k >= p.n) return;
  uint rest = k / p.channels, channel = k - rest * p.channels;
  uint i = rest % p.from, tap = rest / p.from % (p.kernel.x * p.kernel.y * p.kernel.z);
  uint chunk = rest / p.from / (p.kernel.x * p.kernel.y * p.kernel.z);
  uint row = tap / p.kernel.z;
  uvec3 t = uvec3(row / p.kernel.y, row % p.kernel.y, tap % p.kernel.z);
  uint groups = p.channels / p.per_group, a_place = groups * p.from, c = channel / p.per_group * p.from + i;
  uint begin = chunk * p.pixels, end = min(begin + p.pixels, p.all_pixels);
  float sum = 0.0;
  for (uint pixel = begin; pixel < end; ++pixel) {
    uint above = pixel / p.y_size.z, image_depth = above / p.y_size.y, image = image_depth / p.y_size.x;
    uvec3 at = uvec3(image_depth - image * p.y_size.x, above - image_depth * p.y_size.y, pixel - above * p.y_size.z);
    uvec3 from = uvec3(ivec3(at * p.stride) - p.padding + ivec3(t * p.dilation));
    if (any(greaterThanEqual(from, p.x_size))) continue;
    uint source = ((image * p.x_size.x + from.x) * p.x_size.y + from.y) * p.x_size.z + from.z;
    sum += load_float(p.weight, pixel * p.channels + channel, Y) * load_float(p.x, source * a_place + c, X);
  }
  BufferF32(p.y).v[k] = sum;
}

#else

void main() {
  uint k = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 128 + gl_LocalInvocationID.x;
  if (k >= p.n) return;
  uint pixel = k / p.channels, channel = k - pixel * p.channels;
  uint above = pixel / p.y_size.z, image_depth = above / p.y_size.y, image = image_depth / p.y_size.x;
  uvec3 at = uvec3(image_depth - image * p.y_size.x, above - image_depth * p.y_size.y, pixel - above * p.y_size.z);
  uint groups = p.channels / p.per_group, a_place = groups * p.from, c = channel / p.per_group * p.from;
  float sum = 0.0;
  uint tap = 0;
  for (uint d = 0; d < p.kernel.x; ++d) {
    uint z = place(at.x, d, p.padding.x, p.stride.x, p.dilation.x, p.x_size.x);
    for (uint h = 0; h < p.kernel.y; ++h) {
      uint y = place(at.y, h, p.padding.y, p.stride.y, p.dilation.y, p.x_size.y);
      if (z >= p.x_size.x || y >= p.x_size.y) {
        tap += p.kernel.z;
        continue;
      }
      uint line = ((image * p.x_size.x + z) * p.x_size.y + y) * p.x_size.z;
      for (uint w = 0; w < p.kernel.z; ++w, ++tap) {
        uint x = place(at.z, w, p.padding.z, p.stride.z, p.dilation.z, p.x_size.z);
        if (x >= p.x_size.z) continue;
        uint source = (line + x) * a_place + c, by = tap * p.from * p.channels + channel;
        for (uint i = 0; i < p.from; ++i)
          sum += load_float(p.x, source + i, X) * load_float(p.weight, by + i * p.channels, W);
      }
    }
  }
  if (HAS_BIAS != 0) sum += load_float(p.bias, channel, BIAS);
  store_float(p.y, k, Y, sum);
}

#endif
