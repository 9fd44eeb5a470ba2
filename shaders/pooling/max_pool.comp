#version 460
#extension GL_GOOGLE_include_directive : require
// Maxima of windows over up to three spatial dimensions, with their positions, and the backward pass. x is [outer,
// from..., inner], y [outer, to..., inner]. Bytes-bound: windows overlap in the cache, and neighbouring threads read
// neighbouring or nearby elements. The backward pass gathers: a thread owns an element of x, visits the windows that
// contain it, and adds the values of those whose index is that element. There are no atomics and the bits do not vary.
// The index is a plane's flat position in 32 bits.
//
// NaN counts as the largest; of equal maxima the first one counts.
//
// variant: max_pool
// variant: max_pool_back BACK

#include "dtype.glsl"
#include "math.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint ADAPTIVE = 0;
layout(constant_id = 2) const uint UNPOOL = 0;

struct Window {
  int from, to, kernel, stride, padding, dilation;
};

layout(push_constant, scalar) uniform Push {
  uvec2 x, y, indices;  // BACK: x holds the values of the windows
  uint n, inner;
  Window axes[3];
} p;

#ifdef BACK
// The windows that may contain element i: [begin, end).
ivec2 windows_of(Window w, int i) {
  if (ADAPTIVE != 0) return ivec2(i * w.to / w.from, ((i + 1) * w.to - 1) / w.from + 1);
  int last = i + w.padding, first = last - (w.kernel - 1) * w.dilation;
  return ivec2(first <= 0 ? 0 : (first + w.stride - 1) / w.stride, min(last / w.stride + 1, w.to));
}

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint plane = uint(p.axes[0].from * p.axes[1].from * p.axes[2].from);
  uint inner = i % p.inner, rest = i / p.inner, at = rest % plane, outer = rest / plane;
  int width = p.axes[2].from, height = p.axes[1].from;
  ivec2 ds = windows_of(p.axes[0], int(at) / (width * height)), hs = windows_of(p.axes[1], int(at) / width % height),
        ws = windows_of(p.axes[2], int(at) % width);
  float sum = 0.0;
  for (int d = ds.x; d < ds.y; ++d) {
    for (int h = hs.x; h < hs.y; ++h) {
      uint row = ((outer * uint(p.axes[0].to) + uint(d)) * uint(p.axes[1].to) + uint(h)) * uint(p.axes[2].to);
      for (int w = ws.x; w < ws.y; ++w) {
        uint from = (row + uint(w)) * p.inner + inner;
        if (uint(BufferI32(p.indices).v[from]) != at) continue;
        float value = load_float(p.x, from, DTYPE);
        sum = UNPOOL != 0 ? value : sum + value;
      }
    }
  }
  store_float(p.y, i, DTYPE, sum);
}
#else
// The window of result o: [begin, end) and the step.
ivec3 window_of(Window w, int o) {
  if (ADAPTIVE != 0) return ivec3(o * w.from / w.to, ((o + 1) * w.from + w.to - 1) / w.to, 1);
  int start = o * w.stride - w.padding, end = min(start + (w.kernel - 1) * w.dilation + 1, w.from);
  return ivec3(start < 0 ? start + (w.dilation - 1 - start) / w.dilation * w.dilation : start, end, w.dilation);
}

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uint inner = i % p.inner, rest = i / p.inner;
  int w = int(rest % uint(p.axes[2].to));
  rest /= uint(p.axes[2].to);
  int h = int(rest % uint(p.axes[1].to));
  rest /= uint(p.axes[1].to);
  int d = int(rest % uint(p.axes[0].to));
  uint outer = rest / uint(p.axes[0].to);
  int width = p.axes[2].from, height = p.axes[1].from;
  uint base = outer * uint(p.axes[0].from * height * width);
  ivec3 ds = window_of(p.axes[0], d), hs = window_of(p.axes[1], h), ws = window_of(p.axes[2], w);
  float best = uintBitsToFloat(0xff800000u);
  int where = (ds.x * height + hs.x) * width + ws.x;
  for (int a = ds.x; a < ds.y; a += ds.z) {
    for (int b = hs.x; b < hs.y; b += hs.z) {
      for (int c = ws.x; c < ws.y; c += ws.z) {
        int at = (a * height + b) * width + c;
        float value = load_float(p.x, (base + uint(at)) * p.inner + inner, DTYPE);
        if (value > best || m_isnan(value)) {
          best = value;
          where = at;
        }
      }
    }
  }
  store_float(p.y, i, DTYPE, best);
  BufferI32(p.indices).v[i] = where;
}
#endif
