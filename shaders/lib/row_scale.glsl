// Rows whose squares overflow or underflow f32: their elements are first multiplied by a power of two, which is exact.
// All other rows keep their bits.
#ifndef ETNA_ROW_SCALE_GLSL
#define ETNA_ROW_SCALE_GLSL

const float kDown = 8.271806125530277e-25, kUp = 9.223372036854775808e18;  // 2^-80, and 2^63, whose square is finite
// Factors for elements that are only added up, so that sums of the largest numbers stay finite (2^-16 and 2^16).
const float kSumDown = 1.52587890625e-5, kSumUp = 65536.0;
// From this mean of squares on, squares may be infinite (2^100). Elements up to 2^50 stay below; times 2^-80 they are
// 2^-30.
const float kLargeSquares = 1.2676506002282294e30;

// True if eps is so small (below 2^-54) that it does not hide squares of elements below 2^-40.
bool shows_small(float eps) { return eps < 5.551115123125783e-17; }

// The power of two for a row whose largest magnitude is `most`.
float row_scale(float most, float eps) {
  if (most > 1.125899906842624e15) return kDown;  // 2^50
  return most < 9.094947017729282e-13 && shows_small(eps) ? kUp : 1.0;  // 2^-40
}

// The power of two for summing the squares of numbers up to `most`; larger numbers take a smaller power.
float squares_scale(float most) {
  if (most > 1.099511627776e12) return kDown;  // 2^40
  return most > 9.094947017729282e-13 ? 1.0 : kUp;
}

#endif
