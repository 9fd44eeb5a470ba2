#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/quant/quantized_tensor.h>

/// Ops of weights in block formats.
namespace etna::quantized {

inline constexpr int kMostWeights = 3;

/// Positions of quantized_linear's inputs; up to kMostWeights blocks follow kBlocks.
enum LinearInput { kX, kBias, kNorm, kResidual, kBlocks };

struct LinearAttrs {
  std::int64_t rows[kMostWeights] = {};           ///< N of each weight
  std::uint8_t format[kMostWeights] = {0, 0, 0};  ///< its place in quant::block_formats()
  std::uint8_t weights = 0;
  Gate gate = Gate::none;
  DType dtype = DType::f32;  ///< of the result
  double eps = 0;

  const quant::BlockFormat& block_format(int i) const { return quant::block_formats()[format[i]]; }
  /// N of the result.
  std::int64_t columns() const { return gate != Gate::none ? rows[0] : rows[0] + rows[1] + rows[2]; }
};

/// The format of each weight, checked against x [..., K]; their blocks are appended to `in`.
LinearAttrs linear_attrs(const char* op, const Shape& x, std::span<const QuantizedTensor> weights, Gate gate,
                         std::vector<Tensor>& in);
/// act(x) of a gate that is not none.
Tensor gated(Gate gate, const Tensor& x);

/// Positions of round_rows' inputs. Those of rounded_linear are LinearInput's: kX are bytes, kNorm is the next norm's.
enum RoundInput { kToRound, kRoundNorm };
struct RoundedLinearAttrs {
  LinearAttrs linear;
  std::int64_t rows = 0, columns = 0;  ///< of x
  bool normed = false, rounds = false;
};

/// Of half_rows: inputs are RoundInput's, outputs the rows and the factor, which is empty for bf16.
struct HalfRowsAttrs {
  DType dtype = DType::f16;
  double eps = 0;
};
/// Of half_linear: inputs are LinearInput's, kNorm the next norm's, then the factor or an undefined tensor behind the
/// blocks. Outputs: the result; where there is a next dtype also the rows in it, normed where there is a norm, with
/// their factor.
struct HalfLinearAttrs {
  LinearAttrs linear;
  std::optional<DType> next = {};
  double next_eps = 0;
};

/// Views of RoundedRows::data in bytes.
struct RoundedParts {
  Tensor codes;            ///< [rows, K] i8
  Tensor scales, squares;  ///< [rows, K / kRoundedBlock] f32
};
RoundedParts parts_of(const Tensor& bytes, std::int64_t rows, std::int64_t columns);

/// The most rows of x that a GPU multiplies without decoding the weights first.
inline constexpr std::int64_t kMostRows = 8;

enum EmbeddingInput { kIndices, kTable };

/// For dequantize() and quantized_embedding().
struct TableAttrs {
  std::int64_t rows = 0, columns = 0;
  std::uint8_t format = 0;
  DType dtype = DType::f32;
};

/// What a GPU multiplies more than kMostRows rows of f32 in. @param elements of the rows @param formats of the weights
DType product_dtype(Device device, std::int64_t elements, std::span<const quant::BlockFormat* const> formats);

void linear_cpu(const OpCall& call, std::span<Tensor> out);
bool linear_gpu(const OpCall& call, std::span<Tensor> out);
bool round_rows_gpu(const OpCall& call, std::span<Tensor> out);
bool rounded_linear_gpu(const OpCall& call, std::span<Tensor> out);
bool half_rows_gpu(const OpCall& call, std::span<Tensor> out);
bool half_linear_gpu(const OpCall& call, std::span<Tensor> out);
void embedding_cpu(const OpCall& call, std::span<Tensor> out);
bool embedding_gpu(const OpCall& call, std::span<Tensor> out);
void dequantize_cpu(const OpCall& call, std::span<Tensor> out);
bool dequantize_gpu(const OpCall& call, std::span<Tensor> out);

}  // namespace etna::quantized
