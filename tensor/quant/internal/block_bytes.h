#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <etna/tensor/dtype.h>

/// Reads and writes the fields of a block. Files are little-endian, and so is every machine that Etna runs on.
namespace etna::quant {

static_assert(std::endian::native == std::endian::little, "blocks are read from memory without conversion");

/// A field of a block at any alignment.
template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

inline float load_f16(const std::byte* at) {
  Half half;
  half.bits = load<std::uint16_t>(at);
  return static_cast<float>(half);
}
inline void store_f16(std::byte* at, float value) { store(at, Half(value).bits); }

/// The nearest finite f16, as an f32.
inline float to_f16(float value) {
  constexpr float kMax = 65504.0f;
  return static_cast<float>(Half(std::clamp(value, -kMax, kMax)));
}

inline unsigned byte_at(const std::byte* bytes, int index) { return std::to_integer<unsigned>(bytes[index]); }
inline std::byte to_byte(unsigned value) { return static_cast<std::byte>(value & 0xffu); }

}  // namespace etna::quant
