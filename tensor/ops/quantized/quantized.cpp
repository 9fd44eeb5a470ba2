#include <etna/tensor/ops/quantized/internal/quantized.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/internal/rows.h>

// quantized_embedding and dequantize: weights in block formats (tensor/quant/).
namespace etna {
namespace {

using namespace quantized;

std::vector<OutputSpec> quantized_embedding_infer(const OpCall& call) {
  const auto a = call.as<TableAttrs>();
  indexing::check_index_dtype(call.op.name, call.in[kIndices]);
  if (!is_floating(a.dtype))
    throw DtypeError(fmt::format("{}: the result's dtype is {}; wanted a floating dtype", call.op.name, name(a.dtype)));
  Shape shape = call.in[kIndices].shape();
  shape.push_back(a.columns);
  return {{shape, a.dtype}};
}

TensorList quantized_embedding_reference(const OpCall& call) {
  return {embedding(dequantized(call.in[kTable], call.as<TableAttrs>()), call.in[kIndices])};
}

const OpDef kQuantizedEmbedding = {.name = "quantized_embedding",
                                   .infer = quantized_embedding_infer,
                                   .cpu = quantized_embedding_cpu,
                                   .gpu = quantized_embedding_gpu,
                                   .reference = quantized_embedding_reference};

std::vector<OutputSpec> dequantize_infer(const OpCall& call) {
  const auto a = call.as<TableAttrs>();
  if (!is_floating(a.dtype))
    throw DtypeError(fmt::format("{}: the result's dtype is {}; wanted a floating dtype", call.op.name, name(a.dtype)));
  return {{Shape{a.rows, a.columns}, a.dtype}};
}

const OpDef kDequantize = {
    .name = "dequantize", .infer = dequantize_infer, .cpu = dequantize_cpu, .gpu = dequantize_gpu};

}  // namespace

namespace quantized {

Tensor dequantized(const Tensor& blocks, const TableAttrs& a) { return apply1(kDequantize, {blocks}, Attrs::of(a)); }

std::uint8_t place_of(const quant::BlockFormat& format) {
  return static_cast<std::uint8_t>(&format - quant::block_formats().data());
}

void require_table(const char* op, const char* what, const QuantizedTensor& x) {
  if (!x.defined()) throw Error(fmt::format("{}: {} is undefined", op, what));
  if (x.shape().rank() != 2) throw ShapeError(fmt::format("{}: {} is {}; wanted a matrix", op, what, str(x.shape())));
}

}  // namespace quantized

Tensor dequantize(const QuantizedTensor& x, DType dtype) {
  if (!x.defined()) throw Error("dequantize: x is undefined");
  const std::int64_t columns = x.shape().rank() == 0 ? 1 : x.size(-1), rows = columns == 0 ? 0 : x.numel() / columns;
  return dequantized(x.blocks(), {rows, columns, place_of(x.format()), dtype}).reshape(x.shape());
}

Tensor quantized_embedding(const Tensor& indices, const QuantizedTensor& table, DType dtype) {
  detail::require_defined("quantized_embedding", indices);
  require_table("quantized_embedding", "the table", table);
  return apply1(kQuantizedEmbedding, {indices, table.blocks()},
                Attrs::of(TableAttrs{table.size(0), table.size(1), place_of(table.format()), dtype}));
}

std::span<const OpDef* const> ops_in_quantized() {
  static const OpDef* const list[] = {&kDequantize, &kQuantizedEmbedding};
  return list;
}

}  // namespace etna
