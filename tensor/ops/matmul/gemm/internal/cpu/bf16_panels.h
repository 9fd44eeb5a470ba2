#pragma once

#include <cstdint>

namespace etna::cpu {

/// Whether the processor has AVX512_BF16.
bool multiplies_bf16_pairs();

/// Rows of a rounded to bf16, two elements a word; an odd last element stands beside a 0.
void round_to_pairs(const float* a, std::int64_t lda, std::int64_t rows, std::int64_t k, std::uint32_t* words);

/// multiply_panel() for bits of bf16 where multiplies_bf16_pairs(); products are summed in pairs in f32.
/// @param words of round_to_pairs()
void multiply_bf16_pairs(const std::uint32_t* words, std::int64_t rows, std::int64_t k, const std::uint16_t* panel,
                         std::int64_t columns, float* out, std::int64_t ldo);

}  // namespace etna::cpu
