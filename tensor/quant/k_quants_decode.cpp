#include <etna/tensor/quant/internal/block_bytes.h>
#include <etna/tensor/quant/internal/families.h>
#include <etna/tensor/quant/internal/k_quants.h>

// Decoders of the K formats; k_quants.h has the layout of their blocks. Codes are copied first: as far as the compiler
// knows, `out` may be the block, and loops over both would not vectorize.
namespace etna::quant {
namespace {

/// Some bytes of a block.
template <int Count>
struct Copy {
  explicit Copy(const std::byte* from) { std::memcpy(bytes, from, Count); }
  std::uint8_t bytes[Count];
};

void decode_one_q2_k(const std::byte* block, float* out) {
  const float d = load_half(block + 80), least = load_half(block + 82);
  for (int sub = 0; sub < 16; ++sub) {
    const unsigned scale = byte_at(block, sub);
    const float step = d * static_cast<float>(scale & 0xfu), minimum = least * static_cast<float>(scale >> 4);
    const Copy<16> codes(block + 16 + 32 * (sub / 8) + 16 * (sub % 2));
    const int shift = 2 * (sub % 8 / 2);
    for (int i = 0; i < 16; ++i) out[16 * sub + i] = step * static_cast<float>(codes.bytes[i] >> shift & 3) - minimum;
  }
}

void decode_one_q3_k(const std::byte* block, float* out) {
  const float d = load_half(block + 108);
  for (int sub = 0; sub < 16; ++sub) {
    const float step = d * static_cast<float>(q3_k_scale(block + 96, sub));
    const Copy<16> third(block + 16 * (sub % 2)), codes(block + 32 + 32 * (sub / 8) + 16 * (sub % 2));
    const int shift = 2 * (sub % 8 / 2), bit = sub / 2;
    for (int i = 0; i < 16; ++i) {
      const int code = codes.bytes[i] >> shift & 3, high = third.bytes[i] >> bit & 1;
      out[16 * sub + i] = step * static_cast<float>(code + 4 * high - 4);
    }
  }
}

void decode_one_q4_k(const std::byte* block, float* out) {
  const float d = load_half(block), least = load_half(block + 2);
  for (int sub = 0; sub < 8; ++sub) {
    const ScaleAndMinimum six = k_scale(block + 4, sub);
    const float step = d * static_cast<float>(six.scale), minimum = least * static_cast<float>(six.minimum);
    const std::byte* codes = block + 16 + 32 * (sub / 2);
    const int shift = 4 * (sub % 2);
    for (int i = 0; i < 32; ++i)
      out[32 * sub + i] = step * static_cast<float>(byte_at(codes, i) >> shift & 0xfu) - minimum;
  }
}

void decode_one_q5_k(const std::byte* block, float* out) {
  const float d = load_half(block), least = load_half(block + 2);
  for (int sub = 0; sub < 8; ++sub) {
    const ScaleAndMinimum six = k_scale(block + 4, sub);
    const float step = d * static_cast<float>(six.scale), minimum = least * static_cast<float>(six.minimum);
    const std::byte* codes = block + 48 + 32 * (sub / 2);
    const int shift = 4 * (sub % 2);
    for (int i = 0; i < 32; ++i) {
      const unsigned fifth = (byte_at(block + 16, i) >> sub & 1u) << 4;
      out[32 * sub + i] = step * static_cast<float>((byte_at(codes, i) >> shift & 0xfu) + fifth) - minimum;
    }
  }
}

void decode_one_q6_k(const std::byte* block, float* out) {
  const float d = load_half(block + 208);
  for (int sub = 0; sub < 16; ++sub) {
    const float step = d * static_cast<float>(load<std::int8_t>(block + 192 + sub));
    const int half = sub / 8, quarter = sub % 8 / 2, part = sub % 2;
    const Copy<16> low(block + 64 * half + 32 * (quarter % 2) + 16 * part), high(block + 128 + 32 * half + 16 * part);
    const int low_shift = 4 * (quarter / 2), high_shift = 2 * quarter;
    for (int i = 0; i < 16; ++i) {
      const int code = (low.bytes[i] >> low_shift & 0xf) | (high.bytes[i] >> high_shift & 3) << 4;
      out[16 * sub + i] = step * static_cast<float>(code - 32);
    }
  }
}

}  // namespace

void decode_q2_k(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_q2_k, kSuperBlock, kBytesQ2_K>(blocks, out, count);
}
void decode_q3_k(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_q3_k, kSuperBlock, kBytesQ3_K>(blocks, out, count);
}
void decode_q4_k(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_q4_k, kSuperBlock, kBytesQ4_K>(blocks, out, count);
}
void decode_q5_k(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_q5_k, kSuperBlock, kBytesQ5_K>(blocks, out, count);
}
void decode_q6_k(const std::byte* blocks, float* out, std::int64_t count) {
  decode_blocks<decode_one_q6_k, kSuperBlock, kBytesQ6_K>(blocks, out, count);
}

}  // namespace etna::quant
