// The f32 functions that elementwise.def names with m_; those that apply to integers have overloads. GLSL's exp, log
// and sqrt are accurate enough everywhere; tanh, sin and cos of some drivers are inaccurate or overflow.
#ifndef ETNA_MATH_GLSL
#define ETNA_MATH_GLSL

bool m_isnan(float a) { return (floatBitsToUint(a) & 0x7fffffffu) > 0x7f800000u; }
bool m_isfinite(float a) { return (floatBitsToUint(a) & 0x7f800000u) != 0x7f800000u; }
#ifdef ETNA_WEBGPU
// In WebGPU, functions of NaN may return anything; SwiftShader's exp() returns infinity, and its log() a number in
// Chromium.
float m_log_or_nan(float a) { return m_isnan(a) ? a : log(a); }
#define log(a) m_log_or_nan(a)
float m_exp_or_nan(float a) { return m_isnan(a) ? a : exp(a); }
vec4 m_exp_or_nan(vec4 a) {
  return vec4(m_exp_or_nan(a.x), m_exp_or_nan(a.y), m_exp_or_nan(a.z), m_exp_or_nan(a.w));
}
#define exp(a) m_exp_or_nan(a)
#endif
// NaN in either operand gives NaN.
float m_max(float a, float b) { return m_isnan(a) || a > b ? a : b; }
float m_min(float a, float b) { return m_isnan(a) || a < b ? a : b; }
float m_sign(float a) { return m_isnan(a) ? a : sign(a); }
// a / b, correct also for b from 2^126 on: its reciprocal is subnormal, which drivers may flush to 0.
float m_divide(float a, float b) {
  float scale = abs(b) > 1.2676506002282294e30 ? 2.3283064365386963e-10 : 1.0;  // 2^-32 above 2^100
  return (a * scale) / (b * scale);
}

bool m_isnan(int a) { return false; }
bool m_isfinite(int a) { return true; }
int m_max(int a, int b) { return max(a, b); }
int m_min(int a, int b) { return min(a, b); }
int m_sign(int a) { return sign(a); }
// Integer power by squaring. A negative exponent gives 0, except for bases 1 and -1.
int m_pow(int a, int b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) == 0 ? 1 : -1) : 0;
  int result = 1;
  for (; b > 0; b >>= 1, a *= a) {
    if ((b & 1) == 1) result *= a;
  }
  return result;
}

float m_pow(float a, float b) {
  if (b == 0.0 || a == 1.0) return 1.0;
  if (m_isnan(a) || m_isnan(b)) return a + b;
  if (a == 0.0) return b > 0.0 ? 0.0 : 1.0 / abs(a);
  if (a > 0.0) return b == 1.0 ? a : b == 2.0 ? a * a : exp2(b * log2(a));
  if (b != floor(b)) return uintBitsToFloat(0x7fc00000u);
  float magnitude = b == 1.0 ? -a : exp2(b * log2(-a));
  return floor(b * 0.5) * 2.0 == b ? magnitude : -magnitude;
}

// In functions.glsl.
float m_log1p(float a);

// 32 bits before the binary point of 2/π, and 224 after it.
const uint kTwoOverPi[8] = uint[8](0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u,
                                   0xfe5163abu);

// An angle minus the nearest multiple of π/2: x in [-π/4, π/4], in two parts, and the multiple modulo 4.
struct ReducedAngle {
  float x, rest;
  uint quadrant;
};

// For 2^8 <= |a| (Payne & Hanek 1983). |a| = m · 2^e with an integer m < 2^24. Multiplies m by the 96 bits of 2/π whose
// product with 2^e matters modulo 4; bits above them add whole turns, and those below add less than 2^-70. No f32 is
// closer than 2^-31 to a multiple of π/2, so 32 significant bits remain.
ReducedAngle m_reduced_large(float a) {
  uint bits = floatBitsToUint(a), m = (bits & 0x7fffffu) | 0x800000u;
  uint from = (min(bits >> 23 & 0xffu, 254u) - 150u) + 30u, word = from >> 5, shift = from & 31u;
  uint p[3];
  for (uint i = 0; i < 3; ++i) {
    uint high = kTwoOverPi[word + i], low = kTwoOverPi[word + i + 1];
    p[i] = shift == 0 ? high : high << shift | low >> (32u - shift);
  }
  uint high1, low1, high2, low2, carry;
  umulExtended(m, p[1], high1, low1);
  umulExtended(m, p[2], high2, low2);
  uint middle = uaddCarry(low1, high2, carry), top = m * p[0] + high1 + carry;
  // top:middle:low2 are |a| · 2/π modulo 4 in units of 2^-94.
  ReducedAngle r;
  r.quadrant = top >> 30;
  uint high = top << 2 | middle >> 30, low = middle << 2 | low2 >> 30;
  bool above = (high & 0x80000000u) != 0u;
  if (above) {
    ++r.quadrant;
    high = ~high;
    low = ~low;
  }
  uint zeros = 31u - uint(findMSB(high | 1u));
  uint fraction = zeros == 0 ? high : high << zeros | low >> (32u - zeros);
  uint angle, unused;
  umulExtended(fraction, 0xc90fdaa2u, angle, unused);  // π/2 in units of 2^-31
  float unit = uintBitsToFloat((96u - zeros) << 23);
  if (above != (a < 0.0)) unit = -unit;
  r.x = float(angle & 0xffffff00u) * unit;
  r.rest = float(angle & 0xffu) * unit;
  if (a < 0.0) r.quadrant = 0u - r.quadrant;
  return r;
}

// Below 2^8, π/2 is split into 16, 16 and 24 bits, so that a multiple of the first two is exact.
ReducedAngle m_reduced(float a) {
  if (abs(a) >= 256.0) return m_reduced_large(a);
  precise float n = round(a * 0.63661977);
  precise float first = a - n * 1.570770263671875;
  precise float second = n * 2.6063062250614166e-5;
  precise float x = first - second;
  precise float rest = ((first - x) - second) - n * 6.0771006e-11;
  return ReducedAngle(x, rest, uint(int(n)));
}

// Near-minimax polynomials on [-π/4, π/4]; the error stays below 2 units in the last place for every f32. GLSL
// guarantees only 2^-11 for its own sin and cos, and only in [-π, π].
float m_sin_or_cos(ReducedAngle r) {
  float s = r.x * r.x;
  if ((r.quadrant & 1u) == 0u) {
    float p = ((2.7246861e-6 * s - 1.9840062e-4) * s + 8.3333319e-3) * s - 1.6666667e-1;
    float y = r.x + (r.rest + r.x * s * p);
    return (r.quadrant & 2u) == 0u ? y : -y;
  }
  float q = (2.4545413e-5 * s - 1.3888291e-3) * s + 4.1666664e-2;
  float y = 1.0 - (0.5 * s - (s * s * q - r.x * r.rest));
  return (r.quadrant & 2u) == 0u ? y : -y;
}
float m_sin(float a) {
  if (!m_isfinite(a)) return uintBitsToFloat(0x7fc00000u);
  if (abs(a) < 0.000244140625) return a;
  return m_sin_or_cos(m_reduced(a));
}
float m_cos(float a) {
  if (!m_isfinite(a)) return uintBitsToFloat(0x7fc00000u);
  ReducedAngle r = m_reduced(a);
  ++r.quadrant;
  return m_sin_or_cos(r);
}

// Taylor series below 0.35, where the quotient loses digits; saturates above 9.
float m_tanh(float a) {
  if (abs(a) < 0.35) {
    float s = a * a;
    return a * (1.0 + s * (-0.33333333 + s * (0.13333333 + s * (-0.053968254 + s * (0.021869489 - s * 0.008863236)))));
  }
  float e = exp(-2.0 * min(abs(a), 9.5));
  float t = (1.0 - e) / (1.0 + e);
  return m_isnan(a) ? a : a < 0.0 ? -t : t;
}

float m_sigmoid(float a) { return 1.0 / (1.0 + exp(-a)); }
float m_softplus(float a) { return max(a, 0.0) + m_log1p(exp(-abs(a))) + (m_isnan(a) ? a : 0.0); }

// The error function: its Maclaurin series below 1; above, Abramowitz & Stegun 7.1.26, whose absolute error of 1.5e-7
// is two units in the last place there.
float m_erf(float a) {
  float x = abs(a), s = a * a;
  if (x < 1.0) {
    float p = 1.0 / 76204800.0;
    p = p * s - 1.0 / 6894720.0;
    p = p * s + 1.0 / 685440.0;
    p = p * s - 1.0 / 75600.0;
    p = p * s + 1.0 / 9360.0;
    p = p * s - 1.0 / 1320.0;
    p = p * s + 1.0 / 216.0;
    p = p * s - 1.0 / 42.0;
    p = p * s + 0.1;
    p = p * s - 1.0 / 3.0;
    p = p * s + 1.0;
    return 1.1283791670955126 * a * p;
  }
  float t = 1.0 / (1.0 + 0.3275911 * x);
  float p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  float magnitude = 1.0 - p * exp(-s);
  return m_isnan(a) ? a : a < 0.0 ? -magnitude : magnitude;
}

#include "functions.glsl"

// m_gelu(x), m_gelu_backward(g, x), and so on.
#define real float
#define tanh m_tanh
#define erf m_erf
#define sigmoid m_sigmoid
#define maximum m_max
#define minimum m_min
#define ETNA_ACTIVATION(number, name, module, result, saved, lo, hi, rows, kind, t_, value, gradient, second) \
  float m_##name(float x) { float t = t_; return value; }                                                     \
  float m_##name##_backward(float g, float x) { float t = t_; return gradient; }
#include "tables/activations.def"
#undef ETNA_ACTIVATION
#undef real
#undef tanh
#undef erf
#undef sigmoid
#undef maximum
#undef minimum

#endif
