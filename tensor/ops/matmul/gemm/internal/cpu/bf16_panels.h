#pragma once

#include <cstdint>

namespace etna::cpu {

/// True if the processor has AVX512_BF16.
bool multiplies_bf16_pairs();

/// Rounds rows of a to bf16 and stores two elements per u32; an odd last element is paired with 0.
void round_to_pairs(const float* a, std::int64_t lda, std::int64_t rows, std::int64_t k, std::uint32_t* pairs);

/// multiply_panel() for bf16 bits. Requires multiplies_bf16_pairs(); adds pairs in f32.
/// @param pairs from round_to_pairs()
void multiply_bf16_pairs(const std::uint32_t* pairs, std::int64_t rows, std::int64_t k, const std::uint16_t* panel,
                         std::int64_t columns, float* out, std::int64_t ldo);

}  // namespace etna::cpu
