#pragma once

#include <etna/tensor/quant/rounded_rows.h>

/// RoundedRows in f16 or bf16.
namespace etna::quantized {

/// @param norm [K] or undefined @throws ShapeError, DtypeError
RoundedRows rows_in_halves(const Tensor& x, const Tensor& norm, DType dtype, double eps);

RoundedLinearResult linear_of_halves(const RoundedRows& x, std::span<const QuantizedTensor> weights,
                                     const RoundedLinearOptions& options);

}  // namespace etna::quantized
