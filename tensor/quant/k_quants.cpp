#include <etna/tensor/quant/internal/k_quants.h>

#include <etna/tensor/quant/internal/block_bytes.h>
#include <etna/tensor/quant/internal/super_block_fit.h>

// Encoders of the K formats: a fit of the whole super-block (super_block_fit.h), then packing.
namespace etna::quant {
namespace {

constexpr int kSuperBlock = 256;

struct ScaleAndMinimum {
  unsigned scale = 0, minimum = 0;
};

/// Stores the scale and minimum of one of eight sub-blocks; `packed` must be zero before. SixBitScalesAndMinimums
/// (scales.h) reads them.
void store_k_scale(std::byte* packed, int sub, ScaleAndMinimum six) {
  const auto raise = [&](int at, unsigned bits) { packed[at] |= to_byte(bits); };
  if (sub < 4) {
    raise(sub, six.scale & 63u);
    raise(sub + 4, six.minimum & 63u);
    return;
  }
  raise(sub + 4, (six.scale & 0xfu) | (six.minimum & 0xfu) << 4);
  raise(sub - 4, six.scale >> 4 << 6);
  raise(sub, six.minimum >> 4 << 6);
}

/// Stores the scale of one of sixteen sub-blocks; `packed` must be zero before. Q3_K::small_scales() reads them.
void store_q3_k_scale(std::byte* packed, int sub, int scale) {
  const unsigned six = static_cast<unsigned>(scale + 32);
  packed[sub % 8] |= to_byte((six & 0xfu) << 4 * (sub / 8));
  packed[8 + sub % 4] |= to_byte((six >> 4 & 3u) << 2 * (sub / 4));
}

/// The quants 0 to `Last` of a fit.
template <int Last, int Subs, int High>
void affine_quants(const AffineFit<Last, Subs, High>& fit, const float* x, unsigned* quants) {
  constexpr int kSize = kSuperBlock / Subs;
  for (int s = 0; s < Subs; ++s) {
    const Affine sub = fit.sub(s);
    const float inverse = sub.d != 0.0f ? 1.0f / sub.d : 0.0f;
    for (int i = s * kSize; i < (s + 1) * kSize; ++i)
      quants[i] = static_cast<unsigned>(IntegerQuants<0, Last>::round((x[i] - sub.m) * inverse));
  }
}

/// The quants of a fit, counted from 0.
template <int First, int Last, int Subs, int Low, int High>
void symmetric_quants(const SymmetricFit<IntegerQuants<First, Last>, Subs, Low, High>& fit, const float* x,
                      unsigned* quants) {
  constexpr int kSize = kSuperBlock / Subs;
  for (int s = 0; s < Subs; ++s) {
    const float step = fit.step(s), inverse = step != 0.0f ? 1.0f / step : 0.0f;
    for (int i = s * kSize; i < (s + 1) * kSize; ++i)
      quants[i] = static_cast<unsigned>(static_cast<int>(IntegerQuants<First, Last>::round(x[i] * inverse)) - First);
  }
}

/// Packs two bits of each of 256 quants, from bit `shift` on, into 64 bytes: element 128 h + 32 q + i in byte 32 h + i.
void pack_pairs_of_bits(const unsigned* quants, int shift, std::byte* bytes) {
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 32; ++i) {
      unsigned byte = 0;
      for (int quarter = 0; quarter < 4; ++quarter)
        byte |= (quants[128 * half + 32 * quarter + i] >> shift & 3u) << 2 * quarter;
      bytes[32 * half + i] = to_byte(byte);
    }
  }
}

/// Packs one bit of each of 256 quants into 32 bytes: element 32 s + i is bit s of byte i.
void pack_bits(const unsigned* quants, int shift, std::byte* bytes) {
  for (int i = 0; i < 32; ++i) {
    unsigned byte = 0;
    for (int s = 0; s < 8; ++s) byte |= (quants[32 * s + i] >> shift & 1u) << s;
    bytes[i] = to_byte(byte);
  }
}

/// Packs four bits of each of 256 quants into 128 bytes: element 64 p + i in the low nibble, element 64 p + 32 + i in
/// the high one.
void pack_nibbles(const unsigned* quants, std::byte* bytes) {
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i)
      bytes[32 * pair + i] = to_byte((quants[64 * pair + i] & 0xfu) | (quants[64 * pair + 32 + i] & 0xfu) << 4);
  }
}

/// Stores d, dmin and the 12 bytes of scales at the start of a block of Q4_K or Q5_K.
template <int Last>
void store_head(const AffineFit<Last, 8, 63>& fit, std::byte* block) {
  store_f16(block, fit.d);
  store_f16(block + 2, fit.least);
  std::fill(block + 4, block + 16, std::byte{0});
  for (int s = 0; s < 8; ++s)
    store_k_scale(block + 4, s, {static_cast<unsigned>(fit.scales[s]), static_cast<unsigned>(fit.minimums[s])});
}

}  // namespace

void Q2_K::encode(const float* x, const float* w, std::byte* block) {
  const AffineFit<3, 16, 15> fit(x, w);
  unsigned quants[kSuperBlock];
  affine_quants(fit, x, quants);
  for (int s = 0; s < 16; ++s)
    block[s] = to_byte(static_cast<unsigned>(fit.scales[s]) | static_cast<unsigned>(fit.minimums[s]) << 4);
  pack_pairs_of_bits(quants, 0, block + 16);
  store_f16(block + 80, fit.d);
  store_f16(block + 82, fit.least);
}

void Q3_K::encode(const float* x, const float* w, std::byte* block) {
  const SymmetricFit<IntegerQuants<-4, 3>, 16, -32, 31> fit(x, w);
  unsigned quants[kSuperBlock];
  symmetric_quants(fit, x, quants);
  pack_bits(quants, 2, block);
  pack_pairs_of_bits(quants, 0, block + 32);
  std::fill(block + 96, block + 108, std::byte{0});
  for (int s = 0; s < 16; ++s) store_q3_k_scale(block + 96, s, fit.scales[s]);
  store_f16(block + 108, fit.d);
}

void Q4_K::encode(const float* x, const float* w, std::byte* block) {
  const AffineFit<15, 8, 63> fit(x, w);
  unsigned quants[kSuperBlock];
  affine_quants(fit, x, quants);
  store_head(fit, block);
  pack_nibbles(quants, block + 16);
}

void Q5_K::encode(const float* x, const float* w, std::byte* block) {
  const AffineFit<31, 8, 63> fit(x, w);
  unsigned quants[kSuperBlock];
  affine_quants(fit, x, quants);
  store_head(fit, block);
  pack_bits(quants, 4, block + 16);
  pack_nibbles(quants, block + 48);
}

void Q6_K::encode(const float* x, const float* w, std::byte* block) {
  const SymmetricFit<IntegerQuants<-32, 31>, 16, -128, 127> fit(x, w);
  unsigned quants[kSuperBlock];
  symmetric_quants(fit, x, quants);
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 64; ++i) {
      const unsigned low = quants[128 * half + i], high = quants[128 * half + 64 + i];
      block[64 * half + i] = to_byte((low & 0xfu) | (high & 0xfu) << 4);
    }
  }
  pack_pairs_of_bits(quants, 4, block + 128);
  for (int s = 0; s < 16; ++s) store(block + 192 + s, static_cast<std::int8_t>(fit.scales[s]));
  store_f16(block + 208, fit.d);
}

}  // namespace etna::quant
