#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/activations/activations.h>
#include <etna/tensor/quant/quantized_tensor.h>

/// Ops on weights in block formats.
namespace etna::quantized {

inline constexpr int kMostWeights = 4;

// ---- Quantized activations: the op that computes activations also quantizes them, once, for the matmuls on a GPU that
// read them. One or two rows are quantized to bytes, with a scale for each 16 elements: element = quant · scale,
// |quant| <= 127. Up to 32 rows are rounded to f16 or bf16: element = number · factor.

/// Elements that share a scale.
inline constexpr std::int64_t kActivationBlock = 16;
/// Bytes of whole blocks with so many elements: the quants (i8) of all rows, then the scales (f32), then the sum of
/// squares of each block's elements (f32).
constexpr std::int64_t activation_bytes(std::int64_t elements) { return elements + elements / kActivationBlock * 8; }

/// Activations in the form that a matmul reads.
struct ActivationRows {
  ActivationRows() = default;
  ActivationRows(Tensor x) : data(std::move(x)) {}
  ActivationRows(Tensor data, Tensor factor, bool in_bytes, bool normed)
      : data(std::move(data)), factor(std::move(factor)), in_bytes(in_bytes), normed(normed) {}

  Tensor data;            ///< [..., K] floating; u8 [..., K · 3/2] if in bytes
  Tensor factor = {};     ///< f32 [1], for f16; undefined: 1
  bool in_bytes = false;  ///< data holds quants, scales and sums of squares
  bool normed = false;    ///< in bytes: the quants are of x ⊙ an RMS norm's weight; the sums of squares are of x

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

/// Up to so many rows, matmuls round their results to f16 or bf16 for the next one. With more, gemms do not use
/// split-K, so no op has to add up their sums.
inline constexpr std::int64_t kMostQuantized = 32;

/// The best dtype of quantized activations for `rows` rows and all of these weights: i8 on a GPU with integer dot
/// products, for one or two rows and weights in block formats whose rows have a multiple of 64 elements; f16 or bf16 on
/// a GPU with matrix units, for 9 to 32 rows (3 to 32 on Hopper); otherwise nullopt.
/// @param gate the two weights are those of a gate
std::optional<DType> activations_dtype(Device device, std::int64_t rows, std::span<const QuantizedTensor> weights,
                                       bool gate = false);
/// The best dtype of more rows for a producer that can write any: the matmul reads them without conversion, and loses
/// no more precision than it would anyway.
/// @param dtype the present one @param fits whether the values are known to fit in f16
DType operand_dtype(Device device, std::int64_t rows, DType dtype, const QuantizedTensor& weight, bool fits = false);

/// @param x [..., K] floating; for i8, K is a multiple of 16 @param norm weight [K] of an RMS norm, or undefined
/// @param dtype i8, f16 or bf16 @param eps of the norm; with i8, the matmul does the division
/// @throws ShapeError, DtypeError
ActivationRows quantize_activations(const Tensor& x, const Tensor& norm = {}, DType dtype = i8, double eps = 1e-5);

/// With a gate, [..., K] as x, and i8: heads of x, as long as the norm's weight, are normed and multiplied by
/// silu(gate).
enum QuantizeInput { kToQuantize, kQuantizeNorm, kQuantizeGate };
struct QuantizeAttrs {
  DType dtype = DType::i8;
  double eps = 0;
};
/// Elements of a head that the kernel can norm, and which its workgroup's 1024 are a multiple of.
constexpr bool norms_heads_of(std::int64_t size) { return size >= kActivationBlock && 1024 % size == 0; }
extern const OpDef kQuantizeActivations;  ///< outputs: the data and the factor, which is empty except for f16

/// The same, composed of base ops. @param x [..., K] f32 @return data and factor
TensorList quantize_reference(const Tensor& x, const Tensor& norm, DType dtype, double eps);
/// The values in f32. @param eps of the norm, for activations in bytes
Tensor numbers_of(const ActivationRows& x, double eps);

// ---- The matmul.

/// Positions of quantized_linear's inputs. All may be undefined but x and the blocks of each weight.
enum LinearInput {
  kX,
  kBias,      ///< of the first weight, or of all of them
  kNorm,      ///< [K], weight of an RMS norm of x
  kResidual,  ///< [..., N], added last
  kFactor,    ///< ActivationRows::factor of x
  kNextNorm,  ///< [N], weight of the norm before the next matmul
  kBlocks,
  kMoreBiases = kBlocks + kMostWeights,  ///< of the second weight and later ones, where they are separate
  kLinearInputs = kMoreBiases + kMostWeights - 1
};

struct LinearAttrs {
  std::int64_t rows[kMostWeights] = {};    ///< N of each weight
  std::uint8_t format[kMostWeights] = {};  ///< index of each weight's format in quant::block_formats()
  std::uint8_t weights = 0;
  Activation gate = Activation::none;     ///< between two weights: gate(x·w₀ᵀ) ⊙ (x·w₁ᵀ)
  DType dtype = DType::f32;               ///< of the result
  bool in_bytes = false, normed = false;  ///< of x, as in ActivationRows
  std::optional<DType> next = {};         ///< also output the result quantized to this
  double eps = 0, next_eps = 0;           ///< of the norms

  const quant::BlockFormat& block_format(int i) const { return quant::block_formats()[format[i]]; }
  /// N of the result.
  std::int64_t columns() const { return gate != Activation::none ? rows[0] : rows[0] + rows[1] + rows[2] + rows[3]; }
};

/// K of x.
inline std::int64_t columns_of_x(const Tensor& x, const LinearAttrs& a) {
  return a.in_bytes ? x.size(-1) / 3 * 2 : x.size(-1);
}

extern const OpDef kQuantizedLinear;  ///< outputs: the result; if `next` is set, also its data and factor

struct LinearOptions {
  Tensor bias = {};                    ///< [N], of all weights in order
  Tensor norm = {};                    ///< [K]: weight of an RMS norm that is applied to x
  double eps = 1e-5;                   ///< of the norm, even if x in bytes already includes its weight
  Activation gate = Activation::none;  ///< between two weights of N rows
  Tensor residual = {};                ///< [..., N], added last
  std::optional<DType> dtype = {};     ///< of the result; x's by default, of quantized x f32
  std::optional<DType> next = {};      ///< also return the result quantized to this; x must be of the same kind
  Tensor next_norm = {};               ///< [N]: weight of the norm that follows, or undefined
  double next_eps = 1e-5;
};
struct LinearResult {
  Tensor y;             ///< [..., N]
  ActivationRows next;  ///< undefined unless requested
};
/// The fused matmul, into which fusion.cpp turns calls of public ops. @throws ShapeError, DtypeError
LinearResult linear(const ActivationRows& x, std::span<const QuantizedTensor> weights,
                    const LinearOptions& options = {});

/// The bias of all weights: the common one, or the concatenation of each weight's; undefined if there is none.
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

/// Decodes the rows of a weight, by an op without a gradient.
Tensor dequantized(const Tensor& blocks, const TableAttrs& a);
std::uint8_t place_of(const quant::BlockFormat& format);
/// @throws Error, ShapeError unless x is a matrix
void require_table(const char* op, const char* what, const QuantizedTensor& x);

/// The dtype of a GPU's gemm for more than kMostRows rows of f32. @param elements of the rows @param formats of the
/// weights
DType gemm_dtype(Device device, std::int64_t elements, std::span<const quant::BlockFormat* const> formats);

void linear_cpu(const OpCall& call, std::span<Tensor> out);
bool linear_gpu(const OpCall& call, std::span<Tensor> out);
bool quantize_activations_gpu(const OpCall& call, std::span<Tensor> out);
void quantized_embedding_cpu(const OpCall& call, std::span<Tensor> out);
bool quantized_embedding_gpu(const OpCall& call, std::span<Tensor> out);
void dequantize_cpu(const OpCall& call, std::span<Tensor> out);
bool dequantize_gpu(const OpCall& call, std::span<Tensor> out);

}  // namespace etna::quantized
