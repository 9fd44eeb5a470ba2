// Philox4x32-10 (Salmon et al. 2011), the same u32s as tensor/ops/random/internal/philox.h, and the standard normal of
// one u32, the same bits as tensor/ops/random/random.cpp.
#ifndef ETNA_PHILOX_GLSL
#define ETNA_PHILOX_GLSL

uvec4 philox(uvec4 c, uvec2 key) {
  for (int round = 0; round < 10; ++round) {
    uint a_high, a_low, b_high, b_low;
    umulExtended(0xD2511F53u, c.x, a_high, a_low);
    umulExtended(0xCD9E8D57u, c.z, b_high, b_low);
    c = uvec4(b_high ^ c.y ^ key.x, b_low, a_high ^ c.w ^ key.y, a_low);
    key += uvec2(0x9E3779B9u, 0xBB67AE85u);
  }
  return c;
}

// v · 2^-32 as f32 for v > 0, truncated to 24 bits by integer operations, so that the rounding of conversions does not
// matter.
float fraction(uint v) {
  int top = findMSB(v);
  uint mantissa = v << uint(31 - top) >> 8;
  return uintBitsToFloat((uint(top + 95) << 23) | (mantissa & 0x7fffffu));
}

// -ln q for 0 < q < 1, by additions and multiplications only: Vulkan requires these f32 operations to be correctly
// rounded, and `precise` keeps them from being fused. random.cpp explains the constants.
float negative_log(float q) {
  int bits = floatBitsToInt(q) - 0x3f3504f3;
  precise float g = intBitsToFloat((bits & 0x7fffff) + 0x3f3504f3) - 1.0, exponent = float(bits >> 23);
  precise float l = 0.0872209668;
  l = l * g + -0.143667385;
  l = l * g + 0.149523199;
  l = l * g + -0.165624127;
  l = l * g + 0.199568301;
  l = l * g + -0.250020742;
  l = l * g + 0.333341867;
  l = l * g + -0.499999881;
  l = l * g + 1.0;
  precise float high = exponent * 0.693359375, low = exponent * -0.000212194442;
  precise float w = -(high + (low + l * g));
  return w;
}

// Exponential with rate 1, never 0.
float standard_exponential(uint word) { return negative_log(fraction(word | 1u)); }

// The inverse of the normal distribution, by additions and multiplications only. random.cpp explains the constants.
float standard_normal(uint word) {
  uint v = ((word & 0x7fffffffu) << 1) | 1u;  // twice the tail probability, in 2^-32
  precise float x = fraction(0u - v), tail = fraction(v);
  precise float q = tail * (1.0 + x);
  precise float w = negative_log(q);
  bool near = w < 5.0, middle = w < 11.0;
#define ETNA_PIECE(a, b, c) (near ? a : middle ? b : c)
  precise float d = w - ETNA_PIECE(2.5, 8.0, 16.5);
  precise float z = ETNA_PIECE(-1.24323032e-08, 0.0, 0.0);
  z = z * d + ETNA_PIECE(3.28560219e-08, 2.61281263e-09, -6.35135737e-12);
  z = z * d + ETNA_PIECE(6.59263151e-07, -3.31364944e-08, 2.06271125e-10);
  z = z * d + ETNA_PIECE(-4.89700506e-06, 2.28834722e-07, -4.85502083e-09);
  z = z * d + ETNA_PIECE(-7.01922636e-06, -6.67612824e-07, 1.14474446e-07);
  z = z * d + ETNA_PIECE(0.000308785675, -1.25999422e-05, -2.84069142e-06);
  z = z * d + ETNA_PIECE(-0.00177164457, 0.000347240304, 7.78855319e-05);
  z = z * d + ETNA_PIECE(-0.00590771716, -0.00714946119, -0.00263928296);
  z = z * d + ETNA_PIECE(0.34880203, 0.249406874, 0.175755724);
  z = z * d + ETNA_PIECE(2.12331343, 3.76384258, 5.51882172);
#undef ETNA_PIECE
  precise float magnitude = z * x;
  return uintBitsToFloat(floatBitsToUint(magnitude) | (word & 0x80000000u));
}

#endif
