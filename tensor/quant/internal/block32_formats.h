#pragma once

#include <etna/tensor/quant/internal/scales.h>

/// Blocks of 32 with one f16 scale d, and in Q4_1 and Q5_1 an f16 minimum m. Internal.
///   Q8_0  d, 32 x i8                       q * d
///   Q4_0  d, 16 bytes of two quants        (q - 8) * d
///   Q4_1  d, m, 16 bytes                   q * d + m
///   Q5_0  d, 32 fifth bits, 16 bytes       (q - 16) * d
///   Q5_1  d, m, 32 fifth bits, 16 bytes    q * d + m
/// The low nibble of byte j holds the low four bits of element j; the high nibble those of element j + 16.
namespace etna::quant {

struct Q8_0 : Block<32, 34>, F16Scale<Q8_0> {
  static constexpr Description kDescription = {"Q8_0", 8, 7, kLargestF16 * 127, "f16 scale, 8-bit quants"};
  static constexpr Packing kPacking = Packing::bytes;
  static constexpr int kZero = 128, kLast = 255;
  static consteval int quants_at(int run) { return block(run) + 2; }
  static void encode(const float* values, const float* weights, std::byte* to);
};

struct Q4_0 : Block<32, 18>, F16Scale<Q4_0> {
  static constexpr Description kDescription = {"Q4_0", 2, 2, kLargestF16 * 7, "f16 scale, 4-bit quants"};
  static constexpr Packing kPacking = Packing::nibbles;
  static constexpr int kZero = 8, kLast = 15;
  static consteval int quants_at(int run) { return block(run) + 2; }
  static void encode(const float* values, const float* weights, std::byte* to);
};

struct Q4_1 : Block<32, 20>, F16ScaleAndMinimum<Q4_1> {
  static constexpr Description kDescription = {"Q4_1", 3, 3, kLargestF16, "f16 scale and minimum, 4-bit quants"};
  static constexpr Packing kPacking = Packing::nibbles;
  static constexpr int kZero = 0, kLast = 15;
  static consteval int quants_at(int run) { return block(run) + 4; }
  static void encode(const float* values, const float* weights, std::byte* to);
};

struct Q5_0 : Block<32, 22>, F16Scale<Q5_0> {
  static constexpr Description kDescription = {"Q5_0", 6, 8, kLargestF16 * 15, "f16 scale, 5-bit quants"};
  static constexpr Packing kPacking = Packing::nibbles;
  static constexpr int kZero = 16, kLast = 31;
  static consteval int fifth_at(int run) { return block(run) + 2; }
  static consteval int quants_at(int run) { return block(run) + 6; }
  static void encode(const float* values, const float* weights, std::byte* to);
};

struct Q5_1 : Block<32, 24>, F16ScaleAndMinimum<Q5_1> {
  static constexpr Description kDescription = {"Q5_1", 7, 9, kLargestF16, "f16 scale and minimum, 5-bit quants"};
  static constexpr Packing kPacking = Packing::nibbles;
  static constexpr int kZero = 0, kLast = 31;
  static consteval int fifth_at(int run) { return block(run) + 4; }
  static consteval int quants_at(int run) { return block(run) + 8; }
  static void encode(const float* values, const float* weights, std::byte* to);
};

}  // namespace etna::quant
