#version 460
#extension GL_GOOGLE_include_directive : require
// Maxima of windows over up to three spatial dimensions, with their positions, and the backward pass. x is [outer,
// from..., inner], y [outer, to..., inner]. Windows overlap in the cache, and neighbouring threads read neighbouring or
// nearby elements. Divisions bound it where their divisors are not known (a backward pass of 0.75 ms is now 0.43, on
// an H100), so what does not change with the size of x is compiled in. The backward pass gathers: a thread owns an
// element of x, visits the windows that contain it, and adds the values of those whose index is that element. There are
// no atomics and the bits do not vary. The index is a plane's flat position in 32 bits.
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
layout(constant_id = 3) const uint INNER_IS_ONE = 0;
// Of the three axes; not of adaptive windows.
layout(constant_id = 4) const int KERNEL_0 = 1;
layout(constant_id = 5) const int STRIDE_0 = 1;
layout(constant_id = 6) const int PADDING_0 = 0;
layout(constant_id = 7) const int DILATION_0 = 1;
layout(constant_id = 8) const int KERNEL_1 = 1;
layout(constant_id = 9) const int STRIDE_1 = 1;
layout(constant_id = 10) const int PADDING_1 = 0;
layout(constant_id = 11) const int DILATION_1 = 1;
layout(constant_id = 12) const int KERNEL_2 = 1;
layout(constant_id = 13) const int STRIDE_2 = 1;
layout(constant_id = 14) const int PADDING_2 = 0;
layout(constant_id = 15) const int DILATION_2 = 1;

struct Window {
  int from, to, kernel, stride, padding, dilation;
};

layout(push_constant, scalar) uniform Push {
  uvec2 x, y, indices;  // BACK: x holds the values of the windows
  uint n, inner;
  int sizes[6];  // of each axis of x, then of y
} p;

int from_size(uint axis) { return p.sizes[2 * axis]; }
int to_size(uint axis) { return p.sizes[2 * axis + 1]; }

Window axis_0() { return Window(from_size(0), to_size(0), KERNEL_0, STRIDE_0, PADDING_0, DILATION_0); }
Window axis_1() { return Window(from_size(1), to_size(1), KERNEL_1, STRIDE_1, PADDING_1, DILATION_1); }
Window axis_2() { return Window(from_size(2), to_size(2), KERNEL_2, STRIDE_2, PADDING_2, DILATION_2); }

// i as a position between the inner elements, whose number `inner` becomes.
uint without_inner(uint i, out uint inner) {
  inner = INNER_IS_ONE != 0 ? 0 : i % p.inner;
  return INNER_IS_ONE != 0 ? i : i / p.inner;
}

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
  uvec3 from_sizes = uvec3(from_size(0), from_size(1), from_size(2));
  uint inner, rest = without_inner(i, inner), rows = rest / from_sizes.z, w_at = rest - rows * from_sizes.z,
              planes = rows / from_sizes.y, h_at = rows - planes * from_sizes.y, outer = planes / from_sizes.x,
              d_at = planes - outer * from_sizes.x, at = (d_at * from_sizes.y + h_at) * from_sizes.z + w_at;
  ivec2 ds = windows_of(axis_0(), int(d_at)), hs = windows_of(axis_1(), int(h_at)),
        ws = windows_of(axis_2(), int(w_at));
  float sum = 0.0;
  for (int d = ds.x; d < ds.y; ++d) {
    for (int h = hs.x; h < hs.y; ++h) {
      uint row = ((outer * uint(to_size(0)) + uint(d)) * uint(to_size(1)) + uint(h)) * uint(to_size(2));
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
  uint inner, rest = without_inner(i, inner);
  int w = int(rest % uint(to_size(2)));
  rest /= uint(to_size(2));
  int h = int(rest % uint(to_size(1)));
  rest /= uint(to_size(1));
  int d = int(rest % uint(to_size(0)));
  uint outer = rest / uint(to_size(0));
  int width = from_size(2), height = from_size(1);
  uint base = outer * uint(from_size(0) * height * width);
  ivec3 ds = window_of(axis_0(), d), hs = window_of(axis_1(), h), ws = window_of(axis_2(), w);
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
