#pragma once

#include <etna/tensor/quant/internal/block32_formats.h>
#include <etna/tensor/quant/internal/grid_formats.h>
#include <etna/tensor/quant/internal/integer_formats.h>
#include <etna/tensor/quant/internal/k_quants.h>
#include <etna/tensor/quant/internal/non_linear_formats.h>
#include <etna/tensor/quant/internal/nvfp4.h>
#include <etna/tensor/quant/internal/ternary_formats.h>

/// All block formats but the unquantized ones, in the order of block_formats(). Internal.
namespace etna::quant {

template <typename... F>
struct FormatList {};

using BlockFormats =
    FormatList<Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4, NVFP4, TQ1_0, TQ2_0,
               I2_S, INT8_64, INT8_128, INT8_ZP_32, INT8_ZP_64, INT8_ZP_128, INT4_64, INT4_128, INT4_ZP_32, INT4_ZP_64,
               INT4_ZP_128, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1_S, IQ1_M>;

}  // namespace etna::quant
