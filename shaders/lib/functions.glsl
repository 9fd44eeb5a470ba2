// The f32 functions of elementwise.def that need more care than GLSL's own: its asin, acos, atan, sinh, log2 and exp
// may lose many digits. Polynomials are interpolated at Chebyshev nodes, so that their error is close to minimal.
// Include math.glsl, which includes this file.
#ifndef ETNA_FUNCTIONS_GLSL
#define ETNA_FUNCTIONS_GLSL

float m_nan() { return uintBitsToFloat(0x7fc00000u); }
float m_infinity() { return uintBitsToFloat(0x7f800000u); }
bool m_isinf(float a) { return (floatBitsToUint(a) & 0x7fffffffu) == 0x7f800000u; }
bool m_signbit(float a) { return (floatBitsToUint(a) & 0x80000000u) != 0u; }
float m_copysign(float a, float b) {
  return uintBitsToFloat((floatBitsToUint(a) & 0x7fffffffu) | (floatBitsToUint(b) & 0x80000000u));
}

// 2^k as two factors, so that products reach infinity and the subnormals.
float m_scaled(float a, int k) {
  int half_k = k >> 1;
  return a * uintBitsToFloat(uint(half_k + 127) << 23) * uintBitsToFloat(uint(k - half_k + 127) << 23);
}

// e^a · 2^shift. ln 2 is split so that k times its first part is exact.
float m_exp_shifted(float a, int shift) {
  float x = clamp(a, -110.0, 95.0);
  float k = roundEven(x * 1.44269504);
  precise float first = x - k * 0.693359375;
  precise float r = first + k * 2.12194440e-4;
  float p = 0.5 + r * (0.166666672 + r * (0.0416664667 + r * (0.00833331048 + r * (0.00139336416 +
            r * 1.98909809e-4))));
  return m_isnan(a) ? a : m_scaled(1.0 + (r + r * r * p), int(k) + shift);
}
float m_exp(float a) { return m_exp_shifted(a, 0); }

float m_exp2(float a) {
  float x = clamp(a, -160.0, 140.0), k = roundEven(x), r = x - k;
  float p = 0.693147182 +
            r * (0.240226507 + r * (0.0555041097 + r * (0.00961805694 + r * (0.0013333502 + r * (1.54614449e-4 +
            r * 1.52973244e-5)))));
  return m_isnan(a) ? a : m_scaled(1.0 + r * p, int(k));
}

float m_expm1(float a) {
  if (abs(a) < 1e-8) return a;
  if (abs(a) < 0.5) {
    float p = 0.5 + a * (0.166666672 + a * (0.0416666679 + a * (0.00833318196 + a * (0.00138887379 +
              a * (1.99621762e-4 + a * 2.49224358e-5)))));
    return a + a * a * p;
  }
  return m_exp(a) - 1.0;
}

// A positive finite number as (1 + f) · 2^k with 1 + f in [√½, √2]; log(1 + f) = f - rest.
struct LogParts {
  float f, rest, k;
};
LogParts m_log_parts(float a) {
  int shift = 0;
  if (a < 1.17549435e-38) {
    a *= 16777216.0;
    shift = 24;
  }
  uint bits = floatBitsToUint(a), from = bits - 0x3f3504f3u;
  int k = int(from) >> 23;
  float f = uintBitsToFloat(bits - (uint(k) << 23)) - 1.0;
  float p = 0.333333313 + f * (-0.24999997 + f * (0.200007156 + f * (-0.166678026 + f * (0.142490581 +
            f * (-0.124256872 + f * (0.116854198 + f * (-0.114797339 + f * 0.0697161183)))))));
  float s = f * f;
  return LogParts(f, 0.5 * s - s * f * p, float(k - shift));
}
// The logarithm of numbers that are not positive and finite.
float m_log_edge(float a) { return a == 0.0 ? -m_infinity() : a > 0.0 ? a : m_nan(); }
bool m_has_log(float a) { return a > 0.0 && m_isfinite(a); }

float m_log(float a) {
  if (!m_has_log(a)) return m_log_edge(a);
  LogParts l = m_log_parts(a);
  return l.k * 0.693359375 + (l.f - (l.rest + l.k * 2.12194440e-4));
}
// 1/ln 2 minus 1, so that the larger part of the product is exact.
float m_log2(float a) {
  if (!m_has_log(a)) return m_log_edge(a);
  LogParts l = m_log_parts(a);
  float y = l.f - l.rest;
  return l.k + (y + y * 0.442695041);
}
float m_log10(float a) {
  if (!m_has_log(a)) return m_log_edge(a);
  LogParts l = m_log_parts(a);
  float y = l.f - l.rest;
  return l.k * 0.301025391 + (y * 0.434294482 + l.k * 4.60503907e-6);
}

// log(1 + a) without losing a small a: divides out the rounding error of 1 + a (Kahan).
float m_log1p(float a) {
  if (a > 67108864.0) return m_isinf(a) ? a : m_log(a);  // 2^26: the 1 is beyond the last digit
  precise float u = 1.0 + a;
  precise float d = u - 1.0;
  if (d == 0.0) return a;
  if (!m_isfinite(u)) return m_log_edge(u);
  return m_log(u) * (a / d);
}

float m_logaddexp(float a, float b) {
  float high = max(a, b);
  if (m_isnan(a) || m_isnan(b)) return a + b;
  if (a == b) return a + 0.693147182;
  return m_isinf(high) ? high : high + m_log1p(m_exp(min(a, b) - high));
}
float m_xlogy(float a, float b) { return m_isnan(b) ? b : a == 0.0 ? 0.0 : a * m_log(b); }

// ---- trigonometry and its inverses
float m_tan(float a) {
  if (!m_isfinite(a)) return m_nan();
  if (abs(a) < 0.000244140625) return a;
  ReducedAngle r = m_reduced(a);
  float s = m_sin_or_cos(r);
  ++r.quadrant;
  return s / m_sin_or_cos(r);
}
// sin(πa)/(πa). The angle is reduced before it is multiplied by π, so that integers give 0.
float m_sinc(float a) {
  if (a == 0.0) return 1.0;
  if (!m_isfinite(a)) return m_isnan(a) ? a : 0.0;
  float n = roundEven(a), r = a - n;
  float s = m_sin(3.14159274 * r);
  if (n - 2.0 * floor(n * 0.5) != 0.0) s = -s;
  return s / (3.14159274 * a);
}

// For a in [0, ∞]: the angle is reduced by π/2 or π/4, then a polynomial below tan(π/8).
float m_atan_positive(float a) {
  float base = 0.0, rest = 0.0, t = a;
  if (a > 2.41421366) {
    base = 1.57079637;
    rest = -4.37113883e-8;
    t = -1.0 / a;
  } else if (a > 0.414213568) {
    base = 0.785398185;
    rest = -2.18556941e-8;
    t = (a - 1.0) / (a + 1.0);
  }
  float s = t * t;
  float p = -0.333333313 + s * (0.199995399 + s * (-0.142639562 + s * (0.107437313 - s * 0.0645192787)));
  return base + (t + (t * s * p + rest));
}
float m_atan(float a) { return m_isnan(a) ? a : m_copysign(m_atan_positive(abs(a)), a); }

// Divides the smaller magnitude by the larger one, both scaled so that the quotient keeps its digits.
float m_atan2(float a, float b) {
  if (m_isnan(a) || m_isnan(b)) return m_nan();
  float y = abs(a), x = abs(b), angle;
  if (y == 0.0) {
    angle = 0.0;
  } else if (m_isinf(x) && m_isinf(y)) {
    angle = 0.785398185;
  } else if (m_isinf(x) || m_isinf(y)) {
    angle = m_isinf(y) ? 1.57079637 : 0.0;
  } else {
    float larger = max(x, y), scale = larger > 1e30 ? 1.0e-10 : larger < 1e-20 ? 1e18 : 1.0;
    x *= scale;
    y *= scale;
    angle = y > x ? 1.57079637 - (m_atan_positive(x / y) + 4.37113883e-8) : m_atan_positive(y / x);
  }
  if (m_signbit(b)) angle = 3.14159274 - (angle + 8.74227766e-8);
  return m_copysign(angle, a);
}

// asin on [0, ½]
float m_asin_small(float x) {
  float s = x * x;
  float p = 0.166666657 + s * (0.0750009418 + s * (0.0445994027 + s * (0.0311006624 + s * (0.0171492379 +
            s * 0.0336908475))));
  return x + x * s * p;
}
// 2·asin(√((1-x)/2)) for x in [½, 1]: the angle whose cosine is x. One Newton step corrects the inexact square roots of
// some drivers.
float m_acos_large(float x) {
  float half_rest = 0.5 * (1.0 - x), root = sqrt(half_rest);
  if (root > 0.0) root = root + 0.5 * (half_rest - root * root) / root;
  return 2.0 * m_asin_small(root);
}
float m_asin(float a) {
  float x = abs(a);
  if (!(x <= 1.0)) return m_nan();
  if (x <= 0.5) return m_copysign(m_asin_small(x), a);
  return m_copysign(1.57079637 - (m_acos_large(x) + 4.37113883e-8), a);
}
float m_acos(float a) {
  if (!(abs(a) <= 1.0)) return m_nan();
  if (a > 0.5) return m_acos_large(a);
  if (a < -0.5) return 3.14159274 - (m_acos_large(-a) + 8.74227766e-8);
  return 1.57079637 - (m_copysign(m_asin_small(abs(a)), a) + 4.37113883e-8);
}

// ---- hyperbolic functions and their inverses
float m_sinh(float a) {
  float x = abs(a), s = a * a;
  if (x < 1.0) {
    return a + a * s * (0.166666672 + s * (0.00833333936 + s * (1.98381022e-4 + s * 2.80628024e-6)));
  }
  float half_exp = m_exp_shifted(x, -1);
  return m_isnan(a) ? a : m_copysign(half_exp - 0.25 / half_exp, a);
}
float m_cosh(float a) {
  float half_exp = m_exp_shifted(abs(a), -1);
  return half_exp + 0.25 / half_exp;
}
float m_asinh(float a) {
  float x = abs(a);
  if (m_isnan(a) || x < 0.000244140625) return a;
  float y = x > 1e8 ? m_log(x) + 0.693147182 : m_log1p(x + x * x / (1.0 + sqrt(x * x + 1.0)));
  return m_copysign(y, a);
}
float m_acosh(float a) {
  if (!(a >= 1.0)) return m_nan();
  if (a > 1e8) return m_log(a) + 0.693147182;
  float t = a - 1.0;
  return m_log1p(t + sqrt(t * (2.0 + t)));
}
float m_atanh(float a) {
  float x = abs(a);
  if (!(x <= 1.0)) return m_nan();
  if (x < 0.000244140625) return a;
  return x == 1.0 ? m_copysign(m_infinity(), a) : m_copysign(0.5 * m_log1p(2.0 * x / (1.0 - x)), a);
}

// √(a² + b²), scaled by a power of two if the squares would overflow or underflow.
float m_hypot(float a, float b) {
  float x = abs(a), y = abs(b);
  if (m_isinf(x) || m_isinf(y)) return m_infinity();
  float larger = max(x, y);
  float up = larger > 1e18 ? 1.26217745e-29 : larger < 1e-16 ? 7.92281625e28 : 1.0;
  float down = larger > 1e18 ? 7.92281625e28 : larger < 1e-16 ? 1.26217745e-29 : 1.0;
  x *= up;
  y *= up;
  return m_isnan(a) || m_isnan(b) ? a + b : sqrt(x * x + y * y) * down;
}

// ---- error functions
// Above ½: e^(-x²) times a polynomial in (x - 2.5)/(x + 2.5), over 1 + 2x. x² is split, so that its rounding does not
// grow in the exponential.
float m_erfc(float a) {
  float x = abs(a);
  if (m_isnan(a)) return a;
  if (x < 0.5) return 1.0 - m_erf(a);
  float z = min(x, 10.2), u = (z - 2.5) / (z + 2.5);
  float p = 1.26483822 + u * (-0.122356772 + u * (-0.0990244895 + u * (0.157630399 + u * (-0.102968156 +
            u * (0.0327541754 + u * (9.40893486e-4 + u * (-0.00434234273 + u * (4.61629854e-4 +
            u * (5.25907089e-4 - u * 5.05152748e-5)))))))));
  float coarse = uintBitsToFloat(floatBitsToUint(z) & 0xfffff000u);
  float square_high = coarse * coarse, square_low = (z - coarse) * (z + coarse);
  float y = m_exp(-square_high) * m_exp(-square_low);
  y = y * p / (1.0 + 2.0 * z);
  return a < 0.0 ? 2.0 - y : y;
}

// x times a polynomial: in x² below ½, then in w = -log(1 - x²), or in √w near ±1.
float m_erfinv(float a) {
  float x = abs(a);
  if (!(x <= 1.0)) return m_nan();
  if (x == 1.0) return m_copysign(m_infinity(), a);
  if (x < 0.5) {
    float s = a * a;
    float p = 0.886226952 + s * (0.232013687 + s * (0.127554506 + s * (0.0866044611 + s * (0.0641606227 + s *
              (0.0582346804 + s * (0.014526125 + s * 0.095190689))))));
    return a * p;
  }
  float w = -(m_log(1.0 - x) + m_log1p(x));
  if (w < 5.0) {
    w -= 2.5;
    float p = 1.50140929 + w * (0.246640772 + w * (-0.00417734636 + w * (-0.00125375891 + w * (2.18312984e-4 +
              w * (-4.38034658e-6 + w * (-3.45477952e-6 + w * (3.42224695e-7 + w * 2.26059775e-8)))))));
    return a * p;
  }
  w = sqrt(w) - 3.0;
  float p = 2.83297706 + w * (1.00167561 + w * (0.00943291374 + w * (-0.00764327124 + w * (0.00578124262 +
            w * (-0.00360328378 + w * (0.00124865095 + w * (3.45694243e-5 - w * 1.19660333e-4)))))));
  return a * p;
}

// ---- remainders, exact for all operands: long division of the significands, eight bits at a time
float m_fmod(float a, float b) {
  if (!m_isfinite(a) || m_isnan(b) || b == 0.0) return m_nan();
  uint ua = floatBitsToUint(a) & 0x7fffffffu, ub = floatBitsToUint(b) & 0x7fffffffu;
  if (ua < ub || ub == 0u) return ub == 0u ? m_nan() : a;
  int ea = int(ua >> 23), eb = int(ub >> 23);
  uint ma = ua & 0x7fffffu, mb = ub & 0x7fffffu;
  if (ea == 0) ea = 1;
  else ma |= 0x800000u;
  if (eb == 0) eb = 1;
  else mb |= 0x800000u;
  ma %= mb;
  for (int left = ea - eb; left > 0; left -= 8) ma = (ma << uint(min(left, 8))) % mb;
  uint sign = floatBitsToUint(a) & 0x80000000u;
  if (ma == 0u) return uintBitsToFloat(sign);
  int shift = min(23 - findMSB(ma), eb - 1), exponent = eb - shift;
  ma <<= uint(shift);
  return uintBitsToFloat(sign | (ma < 0x800000u ? ma : uint(exponent) << 23 | (ma & 0x7fffffu)));
}
float m_remainder(float a, float b) {
  float r = m_fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}
// a minus b times the integer nearest to the exact quotient.
float m_floor_divide(float a, float b) {
  if (b == 0.0) return a / b;
  float r = m_fmod(a, b), q = m_divide(a - r, b);
  if (r != 0.0 && (r < 0.0) != (b < 0.0)) q -= 1.0;
  if (q == 0.0) return m_copysign(0.0, a) * m_copysign(1.0, b);
  float whole = floor(q);
  return q - whole > 0.5 ? whole + 1.0 : whole;
}

float m_floor(float a) { return floor(a); }
float m_ceil(float a) { return ceil(a); }
float m_round(float a) { return roundEven(a); }
float m_trunc(float a) { return trunc(a); }

// ---- activations
float m_mish(float a) {
  float e = m_exp(min(a, 20.0)), n = e * (e + 2.0);
  return a > 20.0 ? a : a * n / (n + 2.0);
}
float m_logsigmoid(float a) { return (m_isnan(a) ? a : min(a, 0.0)) - m_log1p(m_exp(-abs(a))); }
float m_relu6(float a) { return m_min(m_max(a, 0.0), 6.0); }

// ---- the same for integers, for both widths. Division by 0 gives quotient 0 and remainder a; the least number over -1
// wraps around. Shifts by a negative number, or by at least the number of bits, shift everything out.
#define ETNA_INTEGER_FUNCTIONS(W, BITS)                                                   \
  W m_floor(W a) { return a; }                                                            \
  W m_ceil(W a) { return a; }                                                             \
  W m_round(W a) { return a; }                                                            \
  W m_trunc(W a) { return a; }                                                            \
  bool m_isinf(W a) { return false; }                                                     \
  bool m_signbit(W a) { return a < W(0); }                                                \
  W m_quotient(W a, W b) { return b == W(0) ? W(0) : b == W(-1) ? -a : a / b; }           \
  W m_fmod(W a, W b) { return a - m_quotient(a, b) * b; }                                 \
  W m_remainder(W a, W b) {                                                               \
    W r = m_fmod(a, b);                                                                   \
    return b != W(0) && r != W(0) && (r < W(0)) != (b < W(0)) ? r + b : r;                \
  }                                                                                       \
  W m_floor_divide(W a, W b) {                                                            \
    W q = m_quotient(a, b), r = a - q * b;                                                \
    return b != W(0) && r != W(0) && (r < W(0)) != (b < W(0)) ? q - W(1) : q;             \
  }                                                                                       \
  W m_shift_left(W a, W b) { return b < W(0) || b >= W(BITS) ? W(0) : a << b; }           \
  W m_shift_right(W a, W b) { return a >> (b < W(0) || b >= W(BITS) ? W(BITS - 1) : b); } \
  W m_relu(W a) { return m_max(a, W(0)); }                                                \
  W m_relu_backward(W g, W a) { return a > W(0) ? g : W(0); }                             \
  W m_relu6(W a) { return m_min(m_max(a, W(0)), W(6)); }                                  \
  W m_magnitude(W a) { return a < W(0) ? -a : a; }                                        \
  W m_gcd(W a, W b) {                                                                     \
    while (b != W(0)) {                                                                   \
      W rest = m_fmod(a, b);                                                              \
      a = b;                                                                              \
      b = rest;                                                                           \
    }                                                                                     \
    return m_magnitude(a);                                                                \
  }                                                                                       \
  W m_lcm(W a, W b) { return m_magnitude(m_quotient(a, m_gcd(a, b)) * b); }
ETNA_INTEGER_FUNCTIONS(int, 32)

#endif
