#version 460
#extension GL_GOOGLE_include_directive : require
// Weighted sums along up to three spatial dimensions: average pooling, interpolation, padding, and the transposes of
// all of these, which are their gradients. x is [outer, from..., inner], y [outer, to..., inner]; transposed, the other
// way round. Bytes-bound for the usual small kernels: neighbouring threads write neighbours and read neighbours or the
// same elements, which the cache serves. The weights are computed, not read: a table would be a second stream. The
// transpose gathers too: a thread visits the results that may have read its element and recomputes their weights, so
// there are no atomics and the bits do not vary.
//
// variant: resample

#include "dtype.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint KIND = 0;
layout(constant_id = 1) const uint ALIGN_CORNERS = 0;
layout(constant_id = 2) const uint TRANSPOSED = 0;
layout(constant_id = 3) const uint DTYPE = 1;
layout(constant_id = 4) const uint DIVISOR = 0;
layout(constant_id = 5) const int FIRST = 0;  // axes before this one have size 1 on both sides

// Numbered as etna::resample::Kind and Divisor.
const uint WINDOW = 0, ADAPTIVE = 1, NEAREST = 2, NEAREST_EXACT = 3, LINEAR = 4, CUBIC = 5, REFLECT = 6, REPLICATE = 7,
           CIRCULAR = 8;
const uint WITH_PADDING = 1, NO_DIVISOR = 2;

struct Axis {
  int from, to, kernel, stride, padding;
  float scale;
};

layout(push_constant, scalar) uniform Push {
  uvec2 x, y;
  uint n, inner;
  float factor;
  Axis axes[3];
} p;

float source(Axis a, int o) { return ALIGN_CORNERS != 0 ? float(o) * a.scale : (float(o) + 0.5) * a.scale - 0.5; }

float cubic_near(float d) { return (1.25 * d - 2.25) * d * d + 1.0; }
float cubic_far(float d) { return ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0; }

int ceil_div(int a, int b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
int floor_div(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// The number of elements that result `o` reads, the first of them, and the numbers from which their weights are
// computed.
struct Reads {
  int count, first;
  float t;
};

Reads reads_of(Axis a, int o) {
  if (KIND == WINDOW) {
    int start = o * a.stride - a.padding, stop = start + a.kernel, begin = max(start, 0), end = min(stop, a.from);
    int counted = DIVISOR == WITH_PADDING ? min(stop, a.from + a.padding) - start : end - begin;
    return Reads(max(end - begin, 0), begin, DIVISOR == NO_DIVISOR ? 1.0 : 1.0 / float(counted));
  }
  if (KIND == ADAPTIVE) {
    int begin = o * a.from / a.to, end = ((o + 1) * a.from + a.to - 1) / a.to;
    return Reads(end - begin, begin, 1.0 / float(end - begin));
  }
  if (KIND == NEAREST || KIND == NEAREST_EXACT) {
    float at = float(o) + (KIND == NEAREST ? 0.0 : 0.5);
    return Reads(1, min(int(floor(at * a.scale)), a.from - 1), 1.0);
  }
  if (KIND == LINEAR) {
    float at = max(0.0, source(a, o));
    int first = min(int(at), a.from - 1);
    return Reads(first < a.from - 1 ? 2 : 1, first, min(1.0, at - float(first)));
  }
  if (KIND == CUBIC) {
    float at = source(a, o), below = floor(at);
    return Reads(4, int(below) - 1, at - below);
  }
  int i = o - a.padding;
  if (KIND == REFLECT) {
    i = abs(i);
    return Reads(1, i > a.from - 1 ? 2 * (a.from - 1) - i : i, 1.0);
  }
  if (KIND == REPLICATE) return Reads(1, clamp(i, 0, a.from - 1), 1.0);
  return Reads(1, i < 0 ? i + a.from : i >= a.from ? i - a.from : i, 1.0);
}

int position(Axis a, Reads r, int k) { return KIND == CUBIC ? clamp(r.first + k, 0, a.from - 1) : r.first + k; }

float weight_of(Reads r, int k) {
  if (KIND == LINEAR) return r.count == 1 ? 1.0 : k == 0 ? 1.0 - r.t : r.t;
  if (KIND == CUBIC) {
    return k == 0 ? cubic_far(r.t + 1.0) : k == 1 ? cubic_near(r.t) : k == 2 ? cubic_near(1.0 - r.t)
                                                                             : cubic_far(2.0 - r.t);
  }
  return r.t;
}

// The results that read element i, and possibly others.
Reads readers_of(Axis a, int i) {
  int begin = 0, end = a.to - 1;
  if (KIND == WINDOW) {
    begin = ceil_div(i + a.padding - a.kernel + 1, a.stride);
    end = floor_div(i + a.padding, a.stride);
  } else if (KIND == ADAPTIVE) {
    begin = i * a.to / a.from;
    end = ((i + 1) * a.to - 1) / a.from;
  } else if (KIND == REPLICATE) {
    begin = i == 0 ? 0 : i + a.padding;
    end = i == a.from - 1 ? a.to - 1 : i + a.padding;
  } else if (KIND == REFLECT || KIND == CIRCULAR) {
    return Reads(3, i, 1.0);
  } else if (a.scale > 0.0) {
    // Results between the positions `low` and `high` of the input; positions beyond its edges read the edge. Rounding
    // outward to integers covers the rounding error of the division.
    bool whole = KIND == NEAREST || KIND == NEAREST_EXACT;
    float offset = KIND == NEAREST || ALIGN_CORNERS != 0 ? 0.0 : 0.5, added = whole ? 0.0 : offset;
    float low = float(i) - (whole ? 0.0 : KIND == CUBIC ? 2.0 : 1.0), high = float(i) + (KIND == CUBIC ? 2.0 : 1.0);
    if (i > 0) begin = int(clamp(floor((low + added) / a.scale - offset), 0.0, float(a.to)));
    if (i < a.from - 1) end = int(clamp(ceil((high + added) / a.scale - offset), -1.0, float(end)));
  }
  begin = max(begin, 0);
  end = min(end, a.to - 1);
  return Reads(max(end - begin + 1, 0), begin, 1.0);
}

int reader(Axis a, Reads r, int k) {
  if (KIND != REFLECT && KIND != CIRCULAR) return r.first + k;
  int i = r.first, o = i + a.padding;
  if (KIND == CIRCULAR) o += (k - 1) * a.from;
  if (KIND == REFLECT && k == 1) o = i > 0 ? a.padding - i : -1;
  if (KIND == REFLECT && k == 2) o = i < a.from - 1 ? a.padding + 2 * (a.from - 1) - i : -1;
  return o < a.to ? o : -1;
}

float weight_between(Axis a, int o, int i) {
  Reads r = reads_of(a, o);
  float sum = 0.0;
  if (KIND == WINDOW || KIND == ADAPTIVE) return i >= r.first && i < r.first + r.count ? r.t : 0.0;
  for (int k = 0; k < r.count; ++k) sum += position(a, r, k) == i ? weight_of(r, k) : 0.0;
  return sum;
}

Reads visit(uint d, int at) {
  if (d < FIRST) return Reads(1, 0, 1.0);
  if (TRANSPOSED != 0) return readers_of(p.axes[d], at);
  return reads_of(p.axes[d], at);
}

// The k-th element that position `at` of y reads from x, and its weight; weight 0 skips the element, even if it is NaN.
float visited(uint d, int at, Reads r, int k, out int from) {
  from = 0;
  if (d < FIRST) return 1.0;
  if (TRANSPOSED == 0) {
    from = position(p.axes[d], r, k);
    return weight_of(r, k);
  }
  from = reader(p.axes[d], r, k);
  return from < 0 ? 0.0 : weight_between(p.axes[d], from, at);
}

void main() {
  uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationID.x;
  if (i >= p.n) return;
  uvec3 taken, given;
  for (uint d = 0; d < 3; ++d) {
    taken[d] = uint(TRANSPOSED != 0 ? p.axes[d].to : p.axes[d].from);
    given[d] = uint(TRANSPOSED != 0 ? p.axes[d].from : p.axes[d].to);
  }
  uint rest = i / p.inner, inner = i % p.inner;
  ivec3 at = ivec3(0);
  at.z = int(rest % given.z), rest /= given.z;
  if (FIRST < 2) at.y = int(rest % given.y), rest /= given.y;
  if (FIRST < 1) at.x = int(rest % given.x), rest /= given.x;
  Reads depth = visit(0, at.x), height = visit(1, at.y), width = visit(2, at.z);
  float sum = 0.0;
  for (int a = 0; a < depth.count; ++a) {
    int from_d, from_h, from_w;
    float weight_d = visited(0, at.x, depth, a, from_d);
    if (weight_d == 0.0) continue;
    for (int b = 0; b < height.count; ++b) {
      float weight_h = weight_d * visited(1, at.y, height, b, from_h);
      if (weight_h == 0.0) continue;
      uint row = ((rest * taken.x + uint(from_d)) * taken.y + uint(from_h)) * taken.z;
      for (int c = 0; c < width.count; ++c) {
        float weight = weight_h * visited(2, at.z, width, c, from_w);
        if (weight != 0.0) sum += weight * load_float(p.x, (row + uint(from_w)) * p.inner + inner, DTYPE);
      }
    }
  }
  store_float(p.y, i, DTYPE, sum * p.factor);
}
