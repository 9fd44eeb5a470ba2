// One row of tables/elementwise.def in the compute type T of this variant. The specialization constant OP chooses the
// row; any other value returns the first operand. Declare OP first; include dtype.glsl and, unless CAST_ONLY,
// math.glsl.
#ifndef ETNA_ELEMENTWISE_GLSL
#define ETNA_ELEMENTWISE_GLSL

#ifndef CAST_ONLY
#if defined(T_FLOAT)
#include "special.glsl"
#define ETNA_SAME(name, expression) return expression
#define ETNA_REAL(expression) return expression
#define ETNA_BITS(name, expression) return T(0)
#elif defined(T_PAIR)
#include "int64_pair_rows.glsl"
#define ETNA_SAME(name, expression) return pair_##name(a, b, c)
#define ETNA_REAL(expression) return T(0)
#define ETNA_BITS(name, expression) return pair_##name(a, b, c)
#else
#define ETNA_SAME(name, expression) return expression
#define ETNA_REAL(expression) return T(0)
#define ETNA_BITS(name, expression) return expression
#endif
#if defined(T_I64)
bool m_isnan(int64_t a) { return false; }
bool m_isfinite(int64_t a) { return true; }
int64_t m_max(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t m_min(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t m_sign(int64_t a) { return a > 0 ? 1 : a < 0 ? -1 : 0; }
int64_t m_pow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) == 0 ? 1 : -1) : 0;
  int64_t result = 1;
  for (; b > 0; b >>= 1, a *= a) {
    if ((b & 1) == 1) result *= a;
  }
  return result;
}
ETNA_INTEGER_FUNCTIONS(int64_t, 64)
#endif
#endif

T compute(T a, T b, T c) {
#ifndef CAST_ONLY
  switch (OP) {
#include "elementwise_cases.glsl"
  }
#endif
  return a;
}

#endif
