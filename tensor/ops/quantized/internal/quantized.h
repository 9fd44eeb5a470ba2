#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/activations/activations.h>
#include <etna/tensor/quant/quantized_tensor.h>

/// Ops of weights in block formats.
namespace etna::quantized {

inline constexpr int kMostWeights = 3;

// ---- Quantized activations: rows of a matrix that are rounded once, by whoever computes them, for the products of a
// GPU that read them. In bytes for one row or two, 16 elements to a scale: element = quant · scale, |quant| <= 127. In
// f16 or bf16 for up to 32 rows: element = number · factor.

/// Elements that share a scale.
inline constexpr std::int64_t kActivationBlock = 16;
/// Bytes of so many elements of whole blocks: quants (i8) of all rows, then scales (f32), then the sums of squares of
/// each block's elements (f32).
constexpr std::int64_t activation_bytes(std::int64_t elements) { return elements + elements / kActivationBlock * 8; }

/// Rows as a product reads them.
struct ActivationRows {
  ActivationRows() = default;
  ActivationRows(Tensor x) : data(std::move(x)) {}
  ActivationRows(Tensor data, Tensor factor, bool in_bytes, bool normed)
      : data(std::move(data)), factor(std::move(factor)), in_bytes(in_bytes), normed(normed) {}

  Tensor data;            ///< [..., K] floating; u8 [..., K · 3/2] in bytes
  Tensor factor = {};     ///< f32 [1], of f16; undefined: 1
  bool in_bytes = false;  ///< quants, scales and sums of squares
  bool normed = false;    ///< in bytes: quants are of x ⊙ the weight of an RMS norm; the sums of squares are x's

  bool defined() const { return data.defined(); }
  /// [..., K]
  Shape shape() const;
};

/// Views of ActivationRows::data in bytes.
struct ActivationParts {
  Tensor quants;           ///< [rows, K] i8
  Tensor scales, squares;  ///< [rows, K / kActivationBlock] f32
};
ActivationParts parts_of(const Tensor& bytes);

/// Rows at most that products quantize for one another, in f16 or bf16. With more, gemms do not split k, and have
/// nothing to add up.
inline constexpr std::int64_t kMostQuantized = 32;

/// What products of `rows` rows with all of these weights are best given: i8 on a GPU that multiplies bytes, for one
/// row or two, and weights in block formats with rows of a multiple of 64 elements; f16 or bf16 on one with matrix
/// units, for 9 to 32 rows, on a Hopper GPU for 3 to 32; nothing elsewhere.
/// @param gate the two weights are those of a gate
std::optional<DType> activations_dtype(Device device, std::int64_t rows, std::span<const QuantizedTensor> weights,
                                       bool gate = false);
/// The dtype in which more rows are best handed to a product by whoever can write them in any: it multiplies them as
/// they are, and they lose no digits that it would have kept.
/// @param dtype that they would have otherwise @param fits whether f16 is known to hold their magnitudes
DType operand_dtype(Device device, std::int64_t rows, DType dtype, const QuantizedTensor& weight, bool fits = false);

/// @param x [..., K] floating; for i8, K is a multiple of 16 @param norm [K] of an RMS norm, or undefined
/// @param dtype i8, f16 or bf16 @param eps of the norm; i8 leaves the division to the product
/// @throws ShapeError, DtypeError
ActivationRows quantize_activations(const Tensor& x, const Tensor& norm = {}, DType dtype = i8, double eps = 1e-5);

enum QuantizeInput { kToQuantize, kQuantizeNorm };
struct QuantizeAttrs {
  DType dtype = DType::i8;
  double eps = 0;
};
extern const OpDef kQuantizeActivations;  ///< outputs: the data and the factor, empty but for f16

/// The same by base ops. @param x [..., K] f32 @return data and factor
TensorList quantize_reference(const Tensor& x, const Tensor& norm, DType dtype, double eps);
/// The numbers, in f32. @param eps of the norm that bytes are of
Tensor numbers_of(const ActivationRows& x, double eps);

// ---- The product.

/// Positions of quantized_linear's inputs. All but x and as many blocks as there are weights may be undefined.
enum LinearInput {
  kX,
  kBias,      ///< of the first weight, or of all of them
  kNorm,      ///< [K], of an RMS norm of x
  kResidual,  ///< [..., N], added last
  kFactor,    ///< of x
  kNextNorm,  ///< [N], of the norm that the quantized result is for
  kBlocks,
  kMoreBiases = kBlocks + kMostWeights,  ///< of the second weight and the third, where they are separate
  kLinearInputs = kMoreBiases + kMostWeights - 1
};

struct LinearAttrs {
  std::int64_t rows[kMostWeights] = {};           ///< N of each weight
  std::uint8_t format[kMostWeights] = {0, 0, 0};  ///< its place in quant::block_formats()
  std::uint8_t weights = 0;
  Activation gate = Activation::none;     ///< between two weights: gate(x·w₀ᵀ) ⊙ (x·w₁ᵀ)
  DType dtype = DType::f32;               ///< of the result
  bool in_bytes = false, normed = false;  ///< of x, as in ActivationRows
  std::optional<DType> next = {};         ///< the result is also given quantized to this
  double eps = 0, next_eps = 0;           ///< of the norms

  const quant::BlockFormat& block_format(int i) const { return quant::block_formats()[format[i]]; }
  /// N of the result.
  std::int64_t columns() const { return gate != Activation::none ? rows[0] : rows[0] + rows[1] + rows[2]; }
};

/// K of x.
inline std::int64_t columns_of_x(const Tensor& x, const LinearAttrs& a) {
  return a.in_bytes ? x.size(-1) / 3 * 2 : x.size(-1);
}

extern const OpDef kQuantizedLinear;  ///< outputs: the result; where there is a `next`, its data and factor

struct LinearOptions {
  Tensor bias = {};                    ///< [N], of all weights in order
  Tensor norm = {};                    ///< [K]: rows of x over their root mean square, times this, are multiplied
  double eps = 1e-5;                   ///< of the norm, or of the one that x in bytes is of
  Activation gate = Activation::none;  ///< of two weights of N rows
  Tensor residual = {};                ///< [..., N], added last
  std::optional<DType> dtype = {};     ///< of the result; x's by default, of quantized x f32
  std::optional<DType> next = {};      ///< the result is also given quantized, if x is of the same kind
  Tensor next_norm = {};               ///< [N]: the weight of the norm that it is for, or undefined
  double next_eps = 1e-5;
};
struct LinearResult {
  Tensor y;             ///< [..., N]
  ActivationRows next;  ///< undefined where it was not asked for
};
/// The fused product, which calls of public ops become (fusion.cpp). @throws ShapeError, DtypeError
LinearResult linear(const ActivationRows& x, std::span<const QuantizedTensor> weights,
                    const LinearOptions& options = {});

/// The bias of all weights: the one there is, or those of each behind one another; undefined where there is none.
Tensor joined_bias(const OpCall& call, const LinearAttrs& a);

/// The most rows of x that a GPU multiplies without decoding the weights first.
inline constexpr std::int64_t kMostRows = 8;

enum EmbeddingInput { kIndices, kTable };

/// For dequantize() and quantized_embedding().
struct TableAttrs {
  std::int64_t rows = 0, columns = 0;
  std::uint8_t format = 0;
  DType dtype = DType::f32;
};

/// Rows of a weight in blocks, by an op without a gradient.
Tensor dequantized(const Tensor& blocks, const TableAttrs& a);
std::uint8_t place_of(const quant::BlockFormat& format);
/// @throws Error, ShapeError unless x is a matrix
void require_table(const char* op, const char* what, const QuantizedTensor& x);

/// What a GPU multiplies more than kMostRows rows of f32 in. @param elements of the rows @param formats of the weights
DType product_dtype(Device device, std::int64_t elements, std::span<const quant::BlockFormat* const> formats);

void linear_cpu(const OpCall& call, std::span<Tensor> out);
bool linear_gpu(const OpCall& call, std::span<Tensor> out);
bool quantize_activations_gpu(const OpCall& call, std::span<Tensor> out);
void quantized_embedding_cpu(const OpCall& call, std::span<Tensor> out);
bool quantized_embedding_gpu(const OpCall& call, std::span<Tensor> out);
void dequantize_cpu(const OpCall& call, std::span<Tensor> out);
bool dequantize_gpu(const OpCall& call, std::span<Tensor> out);

}  // namespace etna::quantized
