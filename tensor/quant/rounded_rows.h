#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <etna/tensor/quant/quantized_tensor.h>

/// Rows that are rounded once, by whoever makes them, for the products of a GPU that follow. A chain of few rows saves
/// one or two dispatches a product so.
namespace etna {

/// Elements that share a scale where rows are rounded to bytes.
inline constexpr std::int64_t kRoundedBlock = 16;
/// Size of RoundedRows::data in bytes, for so many elements of whole blocks.
constexpr std::int64_t rounded_bytes(std::int64_t elements) { return elements + elements / kRoundedBlock * 2 * 4; }

/// Rows of a matrix, in bytes for one row or two, 16 elements to a scale: element = code · scale, |code| <= 127; or in
/// f16 or bf16 for up to 32 rows: element = number · factor.
struct RoundedRows {
  /// Bytes: u8 [rows · K · 3/2]: codes (i8) of all rows, then scales (f32), then sums of squares of the elements of
  /// each block. Halves: [rows, K] of their dtype.
  Tensor data;
  Shape shape;          ///< [..., K] of the rows; K is a multiple of 16 in bytes
  bool normed = false;  ///< codes are of x ⊙ the weight of an RMS norm; the sums of squares are x's
  Tensor factor = {};   ///< f32 [1], of halves; undefined: 1

  bool defined() const { return data.defined(); }
  bool in_bytes() const { return data.dtype() == u8; }
};

/// What products of `rows` rows with all of these weights are best given rounded to: i8 on a GPU that multiplies bytes,
/// for one row or two, and weights in block formats with rows of a multiple of 64 elements; f16 or bf16 on one with
/// matrix units, for 9 to 32 rows, on a Hopper GPU for 3 to 32; nothing elsewhere.
/// @param gate the two weights are those of a gate
std::optional<DType> rounded_rows_dtype(Device device, std::int64_t rows, std::span<const QuantizedTensor> weights,
                                        bool gate = false);

/// @param x [..., K] floating; for i8, K is a multiple of 16 @param norm [K] of an RMS norm, or undefined
/// @param dtype i8, f16 or bf16 @param eps of the norm; i8 leaves the division to the product
/// @throws ShapeError, DtypeError
RoundedRows round_rows(const Tensor& x, const Tensor& norm = {}, DType dtype = i8, double eps = 1e-5);

struct RoundedLinearOptions {
  Tensor bias = {};        ///< [N], of all weights in order
  double eps = 1e-5;       ///< of the norm, where x is normed, in bytes
  Gate gate = Gate::none;  ///< as for quantized_linear()
  Tensor residual = {};    ///< [..., N], added last
  /// The result is rounded, too, if x is of the same kind; in bytes, each weight has a multiple of 16 rows.
  std::optional<DType> rounds = {};
  Tensor next_norm = {};  ///< [N]: the weight of the norm that the rounded result is for, or undefined
  double next_eps = 1e-5;
};

struct RoundedLinearResult {
  Tensor y;             ///< [..., N] f32; bf16 where that is what was asked for, without a norm
  RoundedRows rounded;  ///< undefined where it was not asked for
};

/// quantized_linear() of rows that are rounded already. Not differentiable. @throws ShapeError, DtypeError
RoundedLinearResult quantized_linear(const RoundedRows& x, std::span<const QuantizedTensor> weights,
                                     const RoundedLinearOptions& options = {});

}  // namespace etna
