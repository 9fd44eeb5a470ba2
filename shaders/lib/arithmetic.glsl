// Sums, products and comparisons in the compute type T of a variant. They also serve i64 as pairs of u32, for which
// GLSL has no operators. Include dtype.glsl first.
#ifndef ETNA_ARITHMETIC_GLSL
#define ETNA_ARITHMETIC_GLSL

#ifdef T_PAIR
#include "int64_pairs.glsl"
const T ZERO = uvec2(0u, 0u), ONE = uvec2(1u, 0u);
T plus(T a, T b) { return sum64(a, b); }
T times(T a, T b) { return product64(a, b); }
bool less(T a, T b) { return less64(a, b); }
#else
const T ZERO = T(0), ONE = T(1);
T plus(T a, T b) { return a + b; }
T times(T a, T b) { return a * b; }
bool less(T a, T b) { return a < b; }
#endif

// The ends of an integer's range; floats have infinities.
#if defined(T_FLOAT)
#define LOWEST uintBitsToFloat(0xff800000u)
#define HIGHEST uintBitsToFloat(0x7f800000u)
#elif defined(T_INT)
#define LOWEST int(0x80000000)
#define HIGHEST 0x7fffffff
#elif defined(T_PAIR)
#define LOWEST uvec2(0u, 0x80000000u)
#define HIGHEST uvec2(0xffffffffu, 0x7fffffffu)
#else
#define LOWEST (-0x7fffffffffffffffL - 1L)
#define HIGHEST 0x7fffffffffffffffL
#endif

#endif
