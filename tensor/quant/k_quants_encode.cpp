#include <etna/tensor/quant/internal/block_bytes.h>
#include <etna/tensor/quant/internal/families.h>
#include <etna/tensor/quant/internal/k_quants.h>
#include <etna/tensor/quant/internal/super_block_fit.h>

// Encoders of the K formats: a fit of the whole super-block (super_block_fit.h), then packing.
namespace etna::quant {
namespace {

/// The codes 0 to `Last` of a fit.
template <int Last, int Subs, int High>
void affine_codes(const AffineFit<Last, Subs, High>& fit, const float* x, unsigned* codes) {
  constexpr int kSize = kSuperBlock / Subs;
  for (int s = 0; s < Subs; ++s) {
    const Affine sub = fit.sub(s);
    const float inverse = sub.d != 0.0f ? 1.0f / sub.d : 0.0f;
    for (int i = s * kSize; i < (s + 1) * kSize; ++i)
      codes[i] = static_cast<unsigned>(WholeCodes<0, Last>::round((x[i] - sub.m) * inverse));
  }
}

/// The codes of a fit, counted from 0.
template <int First, int Last, int Subs, int Low, int High>
void symmetric_codes(const SymmetricFit<WholeCodes<First, Last>, Subs, Low, High>& fit, const float* x,
                     unsigned* codes) {
  constexpr int kSize = kSuperBlock / Subs;
  for (int s = 0; s < Subs; ++s) {
    const float step = fit.step(s), inverse = step != 0.0f ? 1.0f / step : 0.0f;
    for (int i = s * kSize; i < (s + 1) * kSize; ++i)
      codes[i] = static_cast<unsigned>(static_cast<int>(WholeCodes<First, Last>::round(x[i] * inverse)) - First);
  }
}

/// Two bits of each of 256 codes from bit `shift` on, in 64 bytes: element 128 h + 32 q + i in byte 32 h + i.
void pack_pairs_of_bits(const unsigned* codes, int shift, std::byte* bytes) {
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 32; ++i) {
      unsigned byte = 0;
      for (int quarter = 0; quarter < 4; ++quarter)
        byte |= (codes[128 * half + 32 * quarter + i] >> shift & 3u) << 2 * quarter;
      bytes[32 * half + i] = to_byte(byte);
    }
  }
}

/// One bit of each of 256 codes, in 32 bytes: element 32 s + i is bit s of byte i.
void pack_bits(const unsigned* codes, int shift, std::byte* bytes) {
  for (int i = 0; i < 32; ++i) {
    unsigned byte = 0;
    for (int s = 0; s < 8; ++s) byte |= (codes[32 * s + i] >> shift & 1u) << s;
    bytes[i] = to_byte(byte);
  }
}

/// Four bits of each of 256 codes, in 128 bytes: element 64 p + i with element 64 p + 32 + i above it.
void pack_nibbles(const unsigned* codes, std::byte* bytes) {
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i)
      bytes[32 * pair + i] = to_byte((codes[64 * pair + i] & 0xfu) | (codes[64 * pair + 32 + i] & 0xfu) << 4);
  }
}

void encode_one_q2_k(const float* x, const float* w, std::byte* block) {
  const AffineFit<3, 16, 15> fit(x, w);
  unsigned codes[kSuperBlock];
  affine_codes(fit, x, codes);
  for (int s = 0; s < 16; ++s)
    block[s] = to_byte(static_cast<unsigned>(fit.scales[s]) | static_cast<unsigned>(fit.minimums[s]) << 4);
  pack_pairs_of_bits(codes, 0, block + 16);
  store_half(block + 80, fit.d);
  store_half(block + 82, fit.least);
}

void encode_one_q3_k(const float* x, const float* w, std::byte* block) {
  const SymmetricFit<WholeCodes<-4, 3>, 16, -32, 31> fit(x, w);
  unsigned codes[kSuperBlock];
  symmetric_codes(fit, x, codes);
  pack_bits(codes, 2, block);
  pack_pairs_of_bits(codes, 0, block + 32);
  std::fill(block + 96, block + 108, std::byte{0});
  for (int s = 0; s < 16; ++s) store_q3_k_scale(block + 96, s, fit.scales[s]);
  store_half(block + 108, fit.d);
}

/// d, dmin and the 12 bytes of scales, with which Q4_K and Q5_K begin.
template <int Last>
void store_head(const AffineFit<Last, 8, 63>& fit, std::byte* block) {
  store_half(block, fit.d);
  store_half(block + 2, fit.least);
  std::fill(block + 4, block + 16, std::byte{0});
  for (int s = 0; s < 8; ++s)
    store_k_scale(block + 4, s, {static_cast<unsigned>(fit.scales[s]), static_cast<unsigned>(fit.minimums[s])});
}

void encode_one_q4_k(const float* x, const float* w, std::byte* block) {
  const AffineFit<15, 8, 63> fit(x, w);
  unsigned codes[kSuperBlock];
  affine_codes(fit, x, codes);
  store_head(fit, block);
  pack_nibbles(codes, block + 16);
}

void encode_one_q5_k(const float* x, const float* w, std::byte* block) {
  const AffineFit<31, 8, 63> fit(x, w);
  unsigned codes[kSuperBlock];
  affine_codes(fit, x, codes);
  store_head(fit, block);
  pack_bits(codes, 4, block + 16);
  pack_nibbles(codes, block + 48);
}

void encode_one_q6_k(const float* x, const float* w, std::byte* block) {
  const SymmetricFit<WholeCodes<-32, 31>, 16, -128, 127> fit(x, w);
  unsigned codes[kSuperBlock];
  symmetric_codes(fit, x, codes);
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 64; ++i) {
      const unsigned low = codes[128 * half + i], high = codes[128 * half + 64 + i];
      block[64 * half + i] = to_byte((low & 0xfu) | (high & 0xfu) << 4);
    }
  }
  pack_pairs_of_bits(codes, 4, block + 128);
  for (int s = 0; s < 16; ++s) store(block + 192 + s, static_cast<std::int8_t>(fit.scales[s]));
  store_half(block + 208, fit.d);
}

}  // namespace

void encode_q2_k(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_q2_k, kSuperBlock, kBytesQ2_K>(x, w, blocks, count);
}
void encode_q3_k(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_q3_k, kSuperBlock, kBytesQ3_K>(x, w, blocks, count);
}
void encode_q4_k(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_q4_k, kSuperBlock, kBytesQ4_K>(x, w, blocks, count);
}
void encode_q5_k(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_q5_k, kSuperBlock, kBytesQ5_K>(x, w, blocks, count);
}
void encode_q6_k(const float* x, const float* w, std::byte* blocks, std::int64_t count) {
  encode_blocks<encode_one_q6_k, kSuperBlock, kBytesQ6_K>(x, w, blocks, count);
}

}  // namespace etna::quant
