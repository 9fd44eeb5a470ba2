#include <etna/tensor/ops/quantized/internal/quantized.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/rows.h>

// quantized_linear, quantized_embedding and dequantize: weights in block formats (tensor/quant/).
namespace etna {
namespace {

using namespace quantized;

void quantized_check_floating(const OpCall& call, const char* what, DType dtype) {
  if (!is_floating(dtype))
    throw DtypeError(fmt::format("{}: {} is {}; wanted a floating dtype", call.op.name, what, name(dtype)));
}

/// @param expected null where the shape is free
void quantized_check_operand(const OpCall& call, const char* what, const Tensor& given, const Shape& expected) {
  if (!given.defined()) return;
  quantized_check_floating(call, what, given.dtype());
  if (given.shape() != expected) {
    throw ShapeError(fmt::format("{}: {} is {}; wanted {}", call.op.name, what, str(given.shape()), str(expected)));
  }
}

std::vector<OutputSpec> quantized_infer_linear(const OpCall& call) {
  const auto a = call.as<LinearAttrs>();
  const Tensor& x = call.in[kX];
  quantized_check_floating(call, "x", x.dtype());
  Shape shape = x.shape();
  shape.back() = a.columns();
  quantized_check_operand(call, "the bias", call.in[kBias], {a.rows[0] + a.rows[1] + a.rows[2]});
  quantized_check_operand(call, "the norm's weight", call.in[kNorm], {x.size(-1)});
  quantized_check_operand(call, "the residual", call.in[kResidual], shape);
  quantized_check_floating(call, "the result", a.dtype);
  return {{shape, a.dtype}};
}

Tensor dequantized(const Tensor& blocks, const TableAttrs& a);

/// In f64 where x is, so that tests may ask for it.
TensorList quantized_linear_reference(const OpCall& call) {
  const auto a = call.as<LinearAttrs>();
  const Tensor &given = call.in[kX], &bias = call.in[kBias], &residual = call.in[kResidual];
  const DType row = given.dtype() == f64 ? f64 : f32;
  Tensor x = given.to(row);
  if (call.in[kNorm].defined()) x = rms_norm(x, call.in[kNorm].to(row), a.eps);
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  for (int i = 0; i < a.weights; ++i) {
    const Tensor w =
        dequantized(call.in[static_cast<std::size_t>(kBlocks + i)], {a.rows[i], x.size(-1), a.format[i], row});
    parts.push_back(linear(x, w, bias.defined() ? bias.to(row).slice(0, at, at + a.rows[i]) : Tensor()));
    at += a.rows[i];
  }
  Tensor y = a.gate != Gate::none ? gated(a.gate, parts[0]) * parts[1] : parts.size() == 1 ? parts[0] : cat(parts, -1);
  if (residual.defined()) y = y + residual.to(row);
  return {y.to(a.dtype)};
}

const OpDef kQuantizedLinear = {.name = "quantized_linear",
                                .infer = quantized_infer_linear,
                                .cpu = linear_cpu,
                                .gpu = linear_gpu,
                                .reference = quantized_linear_reference,
                                .saved = Saved::inputs};

std::vector<OutputSpec> infer_embedding(const OpCall& call) {
  const auto a = call.as<TableAttrs>();
  rows::check_index_dtype(call.op.name, call.in[kIndices]);
  if (!is_floating(a.dtype))
    throw DtypeError(
        fmt::format("{}: rows of {} were asked for; wanted a floating dtype", call.op.name, name(a.dtype)));
  Shape shape = call.in[kIndices].shape();
  shape.push_back(a.columns);
  return {{shape, a.dtype}};
}

TensorList embedding_reference(const OpCall& call) {
  return {embedding(dequantized(call.in[kTable], call.as<TableAttrs>()), call.in[kIndices])};
}

const OpDef kQuantizedEmbedding = {.name = "quantized_embedding",
                                   .infer = infer_embedding,
                                   .cpu = embedding_cpu,
                                   .gpu = embedding_gpu,
                                   .reference = embedding_reference};

std::vector<OutputSpec> infer_dequantize(const OpCall& call) {
  const auto a = call.as<TableAttrs>();
  if (!is_floating(a.dtype))
    throw DtypeError(fmt::format("{}: {} was asked for; wanted a floating dtype", call.op.name, name(a.dtype)));
  return {{Shape{a.rows, a.columns}, a.dtype}};
}

const OpDef kDequantize = {
    .name = "dequantize", .infer = infer_dequantize, .cpu = dequantize_cpu, .gpu = dequantize_gpu};

Tensor dequantized(const Tensor& blocks, const TableAttrs& a) { return apply1(kDequantize, {blocks}, Attrs::of(a)); }

std::uint8_t place_of(const quant::BlockFormat& format) {
  return static_cast<std::uint8_t>(&format - quant::block_formats().data());
}

void require_table(const char* op, const char* what, const QuantizedTensor& x) {
  if (!x.defined()) throw Error(fmt::format("{}: {} is undefined", op, what));
  if (x.shape().rank() != 2) throw ShapeError(fmt::format("{}: {} is {}; wanted a matrix", op, what, str(x.shape())));
}

}  // namespace

namespace quantized {

LinearAttrs linear_attrs(const char* op, const Shape& x, std::span<const QuantizedTensor> weights, Gate gate,
                         std::vector<Tensor>& in) {
  if (weights.empty() || weights.size() > kMostWeights)
    throw ShapeError(fmt::format("{}: got {} weights; wanted 1 to {}", op, weights.size(), kMostWeights));
  LinearAttrs a;
  a.gate = gate;
  a.weights = static_cast<std::uint8_t>(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    require_table(op, "a weight", weights[i]);
    if (x.rank() == 0 || weights[i].size(1) != x.back()) {
      throw ShapeError(fmt::format("{}: x is {}, a weight is {}; their last sizes must be equal", op, str(x),
                                   str(weights[i].shape())));
    }
    a.rows[i] = weights[i].size(0);
    a.format[i] = place_of(weights[i].format());
    in.push_back(weights[i].blocks());
  }
  if (gate != Gate::none && (weights.size() != 2 || a.rows[0] != a.rows[1]))
    throw ShapeError(fmt::format("{}: a gate takes two weights of one shape", op));
  return a;
}

Tensor gated(Gate gate, const Tensor& x) {
  if (gate == Gate::silu) return silu(x);
  return gate == Gate::gelu_tanh ? gelu_tanh(x) : square(relu(x));
}

}  // namespace quantized

Tensor dequantize(const QuantizedTensor& x, DType dtype) {
  if (!x.defined()) throw Error("dequantize: x is undefined");
  const std::int64_t columns = x.shape().rank() == 0 ? 1 : x.size(-1), rows = columns == 0 ? 0 : x.numel() / columns;
  return dequantized(x.blocks(), {rows, columns, place_of(x.format()), dtype}).reshape(x.shape());
}

Tensor quantized_linear(const Tensor& x, std::span<const QuantizedTensor> weights,
                        const QuantizedLinearOptions& options) {
  constexpr const char* kName = "quantized_linear";
  detail::require_defined(kName, x);
  std::vector<Tensor> in{x, options.bias, options.norm, options.residual};
  LinearAttrs a = linear_attrs(kName, x.shape(), weights, options.gate, in);
  a.dtype = options.dtype.value_or(x.dtype());
  a.eps = options.eps;
  return apply(kQuantizedLinear, in, Attrs::of(a))[0];
}

Tensor quantized_linear(const Tensor& x, const QuantizedTensor& weight, const QuantizedLinearOptions& options) {
  return quantized_linear(x, std::span(&weight, 1), options);
}

DType quantized_operand_dtype(Device device, std::int64_t rows, DType dtype, const QuantizedTensor& weight, bool fits) {
  require_table("quantized_operand_dtype", "the weight", weight);
  if (device.is_cpu() || rows <= kMostRows || dtype == f64) return dtype;
  const quant::BlockFormat* format = &weight.format();
  const DType product = product_dtype(device, rows * weight.size(1), std::span(&format, 1));
  // Other rows need a factor against overflow.
  return product == f16 && dtype != f16 && !fits ? f32 : product;
}

Tensor quantized_embedding(const Tensor& indices, const QuantizedTensor& table, DType dtype) {
  detail::require_defined("quantized_embedding", indices);
  require_table("quantized_embedding", "the table", table);
  return apply1(kQuantizedEmbedding, {indices, table.blocks()},
                Attrs::of(TableAttrs{table.size(0), table.size(1), place_of(table.format()), dtype}));
}

std::span<const OpDef* const> ops_in_quantized() {
  static const OpDef* const list[] = {&kDequantize, &kQuantizedEmbedding, &kQuantizedLinear};
  return list;
}

}  // namespace etna
