#include <etna/tensor/quant/internal/unquantized_formats.h>

#include <etna/tensor/quant/internal/block_bytes.h>

namespace etna::quant {
namespace {

template <typename T>
void decode_numbers(const std::byte* bytes, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(load<T>(bytes + i * static_cast<std::int64_t>(sizeof(T))));
}

/// Converts f16 to f32 without branches or calls, so that loops vectorize. Subnormal f16 are normal f32.
float f16_bits_to_float(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffu, sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23), infinite = (magnitude << 13) | 0x7f800000u;
  // 2^-14 * (1 + m) minus 2^-14.
  const auto small = std::bit_cast<std::uint32_t>(std::bit_cast<float>((113u << 23) + (magnitude << 13)) - 0x1p-14f);
  return std::bit_cast<float>((magnitude >= 0x7c00u ? infinite : magnitude >= 0x400u ? normal : small) | sign);
}

}  // namespace

void decode_f64(const std::byte* b, float* out, std::int64_t n) { decode_numbers<double>(b, out, n); }
void decode_i8(const std::byte* b, float* out, std::int64_t n) { decode_numbers<std::int8_t>(b, out, n); }
void decode_i16(const std::byte* b, float* out, std::int64_t n) { decode_numbers<std::int16_t>(b, out, n); }
void decode_i32(const std::byte* b, float* out, std::int64_t n) { decode_numbers<std::int32_t>(b, out, n); }
void decode_i64(const std::byte* b, float* out, std::int64_t n) { decode_numbers<std::int64_t>(b, out, n); }

void decode_f32(const std::byte* bytes, float* out, std::int64_t count) {
  if (count > 0) std::memcpy(out, bytes, static_cast<std::size_t>(count) * sizeof(float));
}
void decode_f16(const std::byte* bytes, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = f16_bits_to_float(load<std::uint16_t>(bytes + 2 * i));
}
void decode_bf16(const std::byte* bytes, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(bytes + 2 * i)) << 16);
}

void encode_f32(const float* values, const float*, std::byte* bytes, std::int64_t count) {
  if (count > 0) std::memcpy(bytes, values, static_cast<std::size_t>(count) * sizeof(float));
}
void encode_f16(const float* values, const float*, std::byte* bytes, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) store_f16(bytes + 2 * i, values[i]);
}
void encode_bf16(const float* values, const float*, std::byte* bytes, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) store(bytes + 2 * i, BFloat16(values[i]).bits);
}

}  // namespace etna::quant
