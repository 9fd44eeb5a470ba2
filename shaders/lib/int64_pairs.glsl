// Arithmetic on i64 for devices without 64-bit integers: a number is two u32s in two's complement, the lower first.
// Same results as int64_t, with wrap-around.
#ifndef ETNA_INT64_PAIRS_GLSL
#define ETNA_INT64_PAIRS_GLSL

const uvec2 kZero64 = uvec2(0u, 0u);

uvec2 small64(bool truth) { return uvec2(truth ? 1u : 0u, 0u); }
bool is_negative64(uvec2 a) { return int(a.y) < 0; }
bool less64(uvec2 a, uvec2 b) { return a.y == b.y ? a.x < b.x : int(a.y) < int(b.y); }
bool below64(uvec2 a, uvec2 b) { return a.y == b.y ? a.x < b.x : a.y < b.y; }  // unsigned
uvec2 sum64(uvec2 a, uvec2 b) {
  uint low = a.x + b.x;
  return uvec2(low, a.y + b.y + (low < a.x ? 1u : 0u));
}
uvec2 difference64(uvec2 a, uvec2 b) { return uvec2(a.x - b.x, a.y - b.y - (a.x < b.x ? 1u : 0u)); }
uvec2 magnitude64(uvec2 a) { return is_negative64(a) ? negated(a) : a; }

uvec2 product64(uvec2 a, uvec2 b) {
  // a.x · b.x from 16-bit halves; of the products with the upper u32s only the lower half counts.
  uint a0 = a.x & 0xffffu, a1 = a.x >> 16, b0 = b.x & 0xffffu, b1 = b.x >> 16;
  uint low = a0 * b0, middle = a1 * b0 + (low >> 16), other = a0 * b1 + (middle & 0xffffu);
  uint high = a1 * b1 + (middle >> 16) + (other >> 16);
  return uvec2((other << 16) | (low & 0xffffu), high + a.x * b.y + a.y * b.x);
}

// The quotient rounded towards zero; 0 for a divisor of 0. One bit per step.
uvec2 quotient64(uvec2 a, uvec2 b) {
  if (b == kZero64) return kZero64;
  uvec2 left = magnitude64(a), divisor = magnitude64(b), rest = kZero64, result = kZero64;
  for (uint i = 0; i < 64; ++i) {
    bool carry = (rest.y >> 31) != 0u;
    rest = uvec2((rest.x << 1) | (left.y >> 31), (rest.y << 1) | (rest.x >> 31));
    left = uvec2(left.x << 1, (left.y << 1) | (left.x >> 31));
    result = uvec2(result.x << 1, (result.y << 1) | (result.x >> 31));
    if (carry || !below64(rest, divisor)) {
      rest = difference64(rest, divisor);
      result.x |= 1u;
    }
  }
  return is_negative64(a) != is_negative64(b) ? negated(result) : result;
}
uvec2 fmod64(uvec2 a, uvec2 b) { return difference64(a, product64(quotient64(a, b), b)); }
bool crosses_zero64(uvec2 rest, uvec2 b) {
  return b != kZero64 && rest != kZero64 && is_negative64(rest) != is_negative64(b);
}
uvec2 remainder64(uvec2 a, uvec2 b) {
  uvec2 rest = fmod64(a, b);
  return crosses_zero64(rest, b) ? sum64(rest, b) : rest;
}
uvec2 floor_divide64(uvec2 a, uvec2 b) {
  uvec2 q = quotient64(a, b), rest = difference64(a, product64(q, b));
  return crosses_zero64(rest, b) ? difference64(q, uvec2(1u, 0u)) : q;
}
uvec2 gcd64(uvec2 a, uvec2 b) {
  while (b != kZero64) {
    uvec2 rest = fmod64(a, b);
    a = b;
    b = rest;
  }
  return magnitude64(a);
}
uvec2 pow64(uvec2 a, uvec2 b) {
  uvec2 one = uvec2(1u, 0u), minus_one = uvec2(0xffffffffu, 0xffffffffu);
  bool odd = (b.x & 1u) == 1u;
  if (is_negative64(b)) return a == one ? one : a == minus_one ? (odd ? minus_one : one) : kZero64;
  uvec2 result = one;
  for (; b != kZero64; b = uvec2((b.x >> 1) | (b.y << 31), b.y >> 1)) {
    if ((b.x & 1u) == 1u) result = product64(result, a);
    a = product64(a, a);
  }
  return result;
}
// A shift by less than 0, or by more than 63 bits, leaves only the sign, or 0.
bool shifts64(uvec2 b) { return b.y == 0u && b.x < 64u; }
uvec2 shift_left64(uvec2 a, uvec2 b) {
  if (!shifts64(b)) return kZero64;
  uint n = b.x & 31u;
  if (b.x >= 32u) return uvec2(0u, a.x << n);
  return n == 0u ? a : uvec2(a.x << n, (a.y << n) | (a.x >> (32u - n)));
}
uvec2 shift_right64(uvec2 a, uvec2 b) {
  uint bits = shifts64(b) ? b.x : 63u, n = bits & 31u, sign = uint(int(a.y) >> 31);
  if (bits >= 32u) return uvec2(uint(int(a.y) >> n), sign);
  return n == 0u ? a : uvec2((a.x >> n) | (a.y << (32u - n)), uint(int(a.y) >> n));
}

#endif
