// The f32 functions of elementwise.def that only its rows use: the logarithm of the gamma function and its derivatives,
// Bessel functions. Polynomials are interpolated at Chebyshev nodes. Include math.glsl first.
#ifndef ETNA_SPECIAL_GLSL
#define ETNA_SPECIAL_GLSL

// log Γ(2 + e) / e on [-½, ½]
float m_lgamma_near_2(float e) {
  return 0.422784328 + e * (0.322467029 + e * (-0.0673532635 + e * (0.0205812398 + e * (-0.00736642163 +
         e * (0.0028819656 + e * (-0.00131256238 + e * 5.63159178e-4))))));
}
// For a ≥ ½: log Γ(1 + e) = log Γ(2 + e) - log(1 + e), which keeps its digits at the zeros 1 and 2; a product below 8,
// Stirling's series above.
float m_lgamma_positive(float a) {
  if (a < 1.5) {
    float e = a - 1.0;
    return e * m_lgamma_near_2(e) - m_log1p(e);
  }
  if (a < 8.0) {
    float product = 1.0;
    while (a > 2.5) {
      a -= 1.0;
      product *= a;
    }
    float e = a - 2.0;
    return m_log(product) + e * m_lgamma_near_2(e);
  }
  float r = 1.0 / a, t = r * r;
  return (a - 0.5) * (m_log(a) - 1.0) + (0.418938547 + r * (0.0833333358 - t * (0.00277777785 - t * 7.93650805e-4)));
}
float m_lgamma(float a) {
  float x = abs(a);
  if (m_isnan(a)) return a;
  if (m_isinf(a)) return x;
  if (x < 0.5) return a * m_lgamma_near_2(a) - m_log1p(a) - m_log(x);
  if (a > 0.0) return m_lgamma_positive(a);
  float rest = a - roundEven(a);
  if (rest == 0.0) return m_infinity();
  return m_log(3.14159274 / (abs(m_sin(3.14159274 * rest)) * x)) - m_lgamma_positive(x);
}

// For a > 0. On [1, 2] a polynomial times the distance to the zero, which is stored as two numbers.
float m_digamma_positive(float a) {
  float sum = 0.0;
  if (a < 1.0) {
    sum = -1.0 / a;
    a += 1.0;
  }
  if (a >= 8.0) {
    float t = 1.0 / (a * a);
    return m_log(a) - 0.5 / a - t * (0.0833333358 - t * (0.00833333377 - t * 0.00396825396));
  }
  while (a > 2.0) {
    a -= 1.0;
    sum += 1.0 / a;
  }
  float e = a - 1.5;
  float p = 0.951055884 + e * (-0.423627496 + e * (0.240542531 + e * (-0.148398861 + e * (0.0949846879 +
            e * (-0.062055979 + e * (0.0408500284 + e * (-0.0257868841 + e * (0.0171149876 + e * (-0.0163736194 +
            e * 0.0109025892)))))))));
  precise float near = a - 1.46163213;
  precise float distance = near - 1.24381498e-8;
  return sum + distance * p;
}
float m_digamma(float a) {
  if (m_isnan(a)) return a;
  if (a == 0.0) return m_copysign(m_infinity(), m_signbit(a) ? 1.0 : -1.0);
  if (a > 0.0) return m_isinf(a) ? a : m_digamma_positive(a);
  float rest = a - roundEven(a);
  if (rest == 0.0 || m_isinf(a)) return m_nan();
  return m_digamma_positive(1.0 - a) - 3.14159274 / m_tan(3.14159274 * rest);
}

// a^-s for a > 0: by squaring for a small integer s.
float m_reciprocal_power(float a, float s) {
  if (a == 1.0) return 1.0;
  if (s != floor(s) || s > 64.0) return m_exp(-s * m_log(a));
  float power = 1.0, factor = 1.0 / a;
  for (int n = int(s); n > 0; n >>= 1, factor *= factor) {
    if ((n & 1) == 1) power *= factor;
  }
  return power;
}
// The first terms one by one, the rest by the Euler-Maclaurin formula.
float m_hurwitz_zeta_positive(float q, float s) {
  float sum = 0.0, end = 8.0 + min(s, 64.0);
  while (q < end) {
    float term = m_reciprocal_power(q, s);
    sum += term;
    if (m_isinf(term) || term <= 1e-9 * sum) return sum;
    q += 1.0;
  }
  if (m_isinf(q)) return 0.0;
  float power = m_reciprocal_power(q, s), r = 1.0 / q, t = r * r;
  if (power == 0.0) return sum;
  float series = s * r * (0.0833333358 - (s + 1.0) * (s + 2.0) * t * (0.00138888892 - (s + 3.0) * (s + 4.0) * t *
                 (3.30687835e-5 - (s + 5.0) * (s + 6.0) * t * (8.26719634e-7))));
  return sum + (q * power / (s - 1.0) + power * (0.5 + series));
}
float m_hurwitz_zeta(float q, float s) {
  if (m_isnan(q)) return q;
  if (!(s >= 1.0)) return m_nan();
  if (s == 1.0) return m_infinity();
  if (q > 0.0) return m_hurwitz_zeta_positive(q, s);
  if (m_isinf(q)) return m_nan();
  float rest = q - roundEven(q);
  if (rest == 0.0) return m_infinity();
  if (s != floor(s)) return m_nan();
  float above = rest > 0.0 ? rest : 1.0 + rest, below = rest > 0.0 ? 1.0 - rest : -rest;
  float negative = m_hurwitz_zeta_positive(below, s) - m_hurwitz_zeta_positive(1.0 - q, s);
  return m_hurwitz_zeta_positive(above, s) + (s - 2.0 * floor(s * 0.5) == 0.0 ? negative : -negative);
}

// The power series up to 12, all of whose terms are positive, then the asymptotic series.
float m_bessel_i(float a, float order) {
  if (m_isnan(a)) return a;
  float x = abs(a), sign = order == 1.0 && a < 0.0 ? -1.0 : 1.0, sum = 1.0, term = 1.0;
  if (m_isinf(a)) return sign * x;
  if (x <= 12.0) {
    float t = x * x * 0.25;
    for (float k = 1.0; term > 1e-9 * sum; k += 1.0) {
      term *= t / (k * (k + order));
      sum += term;
    }
    return sign * (order == 1.0 ? 0.5 * x * sum : sum);
  }
  for (float k = 1.0; k < 12.0; k += 1.0) {
    float odd = 2.0 * k - 1.0;
    term *= (odd * odd - 4.0 * order) / (8.0 * x * k);
    sum += term;
  }
  // The root's square may overflow where the result does not, so the compiler must not multiply it first.
  float root = m_exp(0.5 * x);
  precise float half_way = sum / sqrt(6.28318548 * x) * root;
  precise float result = half_way * root;
  return sign * result;
}
float m_i0(float a) { return m_bessel_i(a, 0.0); }
float m_i1(float a) { return m_bessel_i(a, 1.0); }

// Near ½, where the quotient is close to 1, log1p keeps the digits.
float m_logit(float a) {
  return a > 0.25 && a < 0.75 ? m_log1p((2.0 * a - 1.0) / (1.0 - a)) : m_log(a / (1.0 - a));
}
float m_logaddexp2(float a, float b) {
  float high = max(a, b);
  if (m_isnan(a) || m_isnan(b)) return a + b;
  if (a == b) return a + 1.0;
  return m_isinf(high) ? high : high + m_log1p(m_exp2(min(a, b) - high)) * 1.44269504;
}

float m_nextafter(float a, float b) {
  if (m_isnan(a) || m_isnan(b)) return m_nan();
  if (a == b) return b;
  uint bits = floatBitsToUint(a);
  if ((bits & 0x7fffffffu) == 0u) return uintBitsToFloat((floatBitsToUint(b) & 0x80000000u) | 1u);
  return uintBitsToFloat((a < b) == (a > 0.0) ? bits + 1u : bits - 1u);
}

#endif
