#pragma once

#include <etna/tensor/ops/matmul/gemm/internal/cpu/libraries.h>

namespace etna::cpu {

/// True if the processor has AVX512_BF16 or AMX.
bool onednn_multiplies_bf16();
/// On the calling thread; sums are f32.
void onednn_bf16(const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta, float* c);

}  // namespace etna::cpu
