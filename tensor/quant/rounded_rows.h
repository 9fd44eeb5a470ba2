#pragma once

#include <cstdint>
#include <span>

#include <etna/tensor/quant/quantized_tensor.h>

/// Rows that are rounded to bytes once, by whoever makes them, for the products of a GPU that follow. A chain of few
/// rows saves a dispatch a product so.
namespace etna {

/// Rows of a matrix in bytes, 32 elements to a scale: element = code · scale, |code| <= 127.
struct RoundedRows {
  /// u8 [rows · K · 5/4]: codes (i8) of all rows, then scales (f32), then sums of squares of the elements of each block
  Tensor bytes;
  Shape shape;          ///< [..., K] of the rows, K a multiple of 32
  bool normed = false;  ///< codes are of x ⊙ the weight of an RMS norm; the sums of squares are x's

  bool defined() const { return bytes.defined(); }
};

/// Whether products of `rows` rows with all of these weights are best given rounded rows: on a GPU that multiplies
/// bytes, for one row or two, and weights in block formats with rows of a multiple of 64 elements.
/// @param gate the two weights are those of a gate
bool takes_rounded_rows(Device device, std::int64_t rows, std::span<const QuantizedTensor> weights, bool gate = false);

/// @param x [..., K] floating, K a multiple of 32 @param norm [K], or undefined @throws ShapeError, DtypeError
RoundedRows round_rows(const Tensor& x, const Tensor& norm = {});

struct RoundedLinearOptions {
  Tensor bias = {};        ///< [N], of all weights in order
  double eps = 1e-5;       ///< of the norm, where x is normed
  Gate gate = Gate::none;  ///< as for quantized_linear()
  Tensor residual = {};    ///< [..., N], added last
  bool rounds = false;     ///< the result is rounded, too; each weight has a multiple of 32 rows
  Tensor next_norm = {};   ///< [N]: the weight of the norm that the rounded result is for, or undefined
};

struct RoundedLinearResult {
  Tensor y;             ///< [..., N] f32
  RoundedRows rounded;  ///< undefined where it was not asked for
};

/// quantized_linear() of rows that are rounded already. Not differentiable. @throws ShapeError, DtypeError
RoundedLinearResult quantized_linear(const RoundedRows& x, std::span<const QuantizedTensor> weights,
                                     const RoundedLinearOptions& options = {});

}  // namespace etna
