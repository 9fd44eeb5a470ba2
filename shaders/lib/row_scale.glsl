// Rows whose squares leave f32, far above 1 or far below: their elements are multiplied by a power of two first, which
// is exact, so that all other rows keep their bits.
#ifndef ETNA_ROW_SCALE_GLSL
#define ETNA_ROW_SCALE_GLSL

const float kDown = 8.271806125530277e-25, kUp = 9.223372036854775808e18;  // 2^-80, and 2^63, whose square is finite
// Factors of elements that are only added up, so that sums of the largest stay finite (2^-16 and 2^16).
const float kSumDown = 1.52587890625e-5, kSumUp = 65536.0;
// Means of squares from here on may be infinite (2^100). Elements up to 2^50 stay below; times 2^-80 they are 2^-30.
const float kLargeSquares = 1.2676506002282294e30;

// An eps so small (below 2^-54) that it does not hide squares of elements below 2^-40.
bool shows_small(float eps) { return eps < 5.551115123125783e-17; }

// The power of two for a row whose largest magnitude is `most`.
float row_scale(float most, float eps) {
  if (most > 1.125899906842624e15) return kDown;  // 2^50
  return most < 9.094947017729282e-13 && shows_small(eps) ? kUp : 1.0;  // 2^-40
}

// The power of two with which squares of numbers up to `most` are summed; larger numbers take a smaller one.
float squares_scale(float most) {
  if (most > 1.099511627776e12) return kDown;  // 2^40
  return most > 9.094947017729282e-13 ? 1.0 : kUp;
}

#endif
