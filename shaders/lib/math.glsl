// The f32 functions that elementwise.def names with m_; those that apply to integers have overloads. GLSL's exp, log
// and sqrt are accurate enough everywhere; tanh, sin and cos of some drivers are inaccurate or overflow.
#ifndef ETNA_MATH_GLSL
#define ETNA_MATH_GLSL

bool m_isnan(float a) { return (floatBitsToUint(a) & 0x7fffffffu) > 0x7f800000u; }
bool m_isfinite(float a) { return (floatBitsToUint(a) & 0x7f800000u) != 0x7f800000u; }
// NaN in either operand gives NaN.
float m_max(float a, float b) { return m_isnan(a) || a > b ? a : b; }
float m_min(float a, float b) { return m_isnan(a) || a < b ? a : b; }
float m_sign(float a) { return m_isnan(a) ? a : sign(a); }

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
  if (a == 0.0) return b > 0.0 ? 0.0 : 1.0 / abs(a);
  if (a > 0.0) return b == 1.0 ? a : b == 2.0 ? a * a : exp2(b * log2(a));
  if (b != floor(b)) return uintBitsToFloat(0x7fc00000u);
  float magnitude = b == 1.0 ? -a : exp2(b * log2(-a));
  return floor(b * 0.5) * 2.0 == b ? magnitude : -magnitude;
}

// log(1 + a) without losing a small a: divides out the rounding error of 1 + a (Kahan).
float m_log1p(float a) {
  precise float u = 1.0 + a;
  precise float d = u - 1.0;
  if (d == 0.0) return a;
  if (!m_isfinite(u)) return u;
  return log(u) * (a / d);
}

// Reduced to [-π, π]; 2π is subtracted in two parts, so that larger angles keep their digits.
float m_reduced(float a) {
  precise float turns = round(a * 0.15915494309189535);
  precise float r = a - turns * 6.28125;
  return r - turns * 1.9353071795864769e-3;
}
// Taylor series about 0 to x^15 on [-π/2, π/2] after folding; error below 1e-7.
float m_sin(float a) {
  float r = m_reduced(a);
  const float pi = 3.14159265358979;
  if (r > pi * 0.5) r = pi - r;
  if (r < -pi * 0.5) r = -pi - r;
  float s = r * r;
  float p = 1.6059044e-10;
  p = p * s - 2.5052108e-8;
  p = p * s + 2.7557319e-6;
  p = p * s - 1.9841270e-4;
  p = p * s + 8.3333333e-3;
  p = p * s - 1.6666667e-1;
  return m_isfinite(a) ? r + r * s * p : uintBitsToFloat(0x7fc00000u);
}
float m_cos(float a) {
  float r = m_reduced(a);
  const float pi = 3.14159265358979;
  float sign = 1.0;
  if (abs(r) > pi * 0.5) {
    r = pi - abs(r);
    sign = -1.0;
  }
  float s = r * r;
  float p = -1.1470746e-11;
  p = p * s + 2.0876757e-9;
  p = p * s - 2.7557319e-7;
  p = p * s + 2.4801587e-5;
  p = p * s - 1.3888889e-3;
  p = p * s + 4.1666667e-2;
  p = p * s - 0.5;
  return m_isfinite(a) ? sign * (1.0 + s * p) : uintBitsToFloat(0x7fc00000u);
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

float m_gelu(float a) { return 0.5 * a * (1.0 + m_erf(a * 0.7071067811865476)); }
float m_gelu_derivative(float a) {
  return 0.5 * (1.0 + m_erf(a * 0.7071067811865476)) + a * exp(-0.5 * a * a) * 0.3989422804014327;
}
float m_gelu_tanh(float a) { return 0.5 * a * (1.0 + m_tanh(0.7978845608028654 * (a + 0.044715 * a * a * a))); }
float m_gelu_tanh_derivative(float a) {
  float t = m_tanh(0.7978845608028654 * (a + 0.044715 * a * a * a));
  return 0.5 * (1.0 + t) + 0.5 * a * (1.0 - t * t) * 0.7978845608028654 * (1.0 + 0.134145 * a * a);
}
float m_silu_backward(float g, float a) {
  float s = m_sigmoid(a);
  return g * s * (1.0 + a * (1.0 - s));
}

#endif
