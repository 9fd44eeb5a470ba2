// A number near a row's mean that each lane finds by itself: the mean of its first elements. Moments about it lose no digits to a
// mean far from 0, and need no join of lanes for the mean before one for the rest. With s elements in it of a row's n, the
// variance is at least s / n of its squared distance from the mean, whatever the row holds; so taking that square from the mean
// square about it costs the variance a relative error of at most n / s units.
#ifndef ETNA_PIVOT_GLSL
#define ETNA_PIVOT_GLSL

#include "vectors.glsl"

// @param first the row's first element, of those at the address; `stride` on to the next
// @param vector whether fours of neighbours may be loaded at once, n being a multiple of 4
float row_pivot(uvec2 address, uint first, uint stride, uint n, uint dtype, uint vector) {
  if (vector != 0) {
    vec4 v = load_vector(address, first, 4, dtype, 4);
    if (n >= 8) v = 0.5 * (v + load_vector(address, first + 4, 4, dtype, 4));
    return dot(v, vec4(0.25));
  }
  float sum = 0.0;
  uint count = min(n, 8);
  for (uint i = 0; i < count; ++i) sum += load_float(address, first + i * stride, dtype);
  return sum / float(count);
}

#endif
