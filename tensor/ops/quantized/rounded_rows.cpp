#include <etna/tensor/quant/rounded_rows.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/half_rows.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>
#include <etna/tensor/ops/reduce/reduce.h>

// round_rows and rounded_linear: rows in bytes, made once for the products that follow.
namespace etna {
namespace {

using namespace quantized;

void check_blocks(const char* op, const char* what, std::int64_t columns) {
  if (columns % kRoundedBlock != 0)
    throw ShapeError(fmt::format("{}: {} has {} columns; wanted a multiple of {}", op, what, columns, kRoundedBlock));
}

Tensor rounded_rows_bytes_of(const Tensor& x) {
  const Tensor dense = x.contiguous();
  const auto size = static_cast<std::int64_t>(item_size(x.dtype()));
  return detail::make_view(dense.storage(), dense.device(), u8, {dense.numel() * size}, {1}, dense.offset() * size);
}

/// @param x [rows, K] f32 @param norm [K] or undefined
Tensor rounded_reference(const Tensor& x, const Tensor& norm) {
  const Shape blocks{x.size(0), x.size(1) / kRoundedBlock, kRoundedBlock};
  if (x.numel() == 0) return zeros({0}, {u8, x.device()});
  const Tensor given = x.reshape(blocks), values = (norm.defined() ? x * norm.to(f32) : x).reshape(blocks);
  const Tensor most = amax(abs(values), {-1}, true), scale = most / 127.0, inverse = 1.0 / scale;
  const Tensor some = logical_and(isfinite(most), isfinite(inverse));
  const Tensor codes = where(some, round(where(some, values, 0.0) * where(some, inverse, 1.0)), 0.0);
  return cat({rounded_rows_bytes_of(codes.to(i8)),
              rounded_rows_bytes_of(where(isfinite(most), scale, zeros_like(scale) / 0.0)),
              rounded_rows_bytes_of(sum(square(given), {-1}))});
}

std::vector<OutputSpec> infer_round(const OpCall& call) {
  const Tensor &x = call.in[kToRound], &norm = call.in[kRoundNorm];
  if (!is_floating(x.dtype()) || (norm.defined() && !is_floating(norm.dtype())))
    throw DtypeError(
        fmt::format("{}: x is {}; wanted a floating dtype, for the norm's weight, too", call.op.name, name(x.dtype())));
  check_blocks(call.op.name, "x", x.size(1));
  if (norm.defined() && norm.shape() != Shape{x.size(1)}) {
    throw ShapeError(
        fmt::format("{}: the norm's weight is {}; x has {} columns", call.op.name, str(norm.shape()), x.size(1)));
  }
  return {{Shape{rounded_bytes(x.numel())}, u8}};
}

TensorList round_reference(const OpCall& call) {
  return {rounded_reference(call.in[kToRound].to(f32), call.in[kRoundNorm])};
}

const OpDef kRound = {.name = "round_rows", .infer = infer_round, .gpu = round_rows_gpu, .reference = round_reference};

std::vector<OutputSpec> infer_rounded_linear(const OpCall& call) {
  const auto a = call.as<RoundedLinearAttrs>();
  const std::int64_t columns = a.linear.columns();
  const auto check = [&](const char* what, const Tensor& given, const Shape& wanted) {
    if (given.defined() && (given.shape() != wanted || !is_floating(given.dtype()))) {
      throw ShapeError(fmt::format("{}: {} is {} {}; wanted {} of a floating dtype", call.op.name, what,
                                   name(given.dtype()), str(given.shape()), str(wanted)));
    }
  };
  check("the bias", call.in[kBias], {a.linear.rows[0] + a.linear.rows[1] + a.linear.rows[2]});
  check("the next norm's weight", call.in[kNorm], {columns});
  check("the residual", call.in[kResidual], {a.rows, columns});
  if (a.rounds)
    for (int i = 0; i < a.linear.weights; ++i) check_blocks(call.op.name, "a rounded result", a.linear.rows[i]);
  return {{Shape{a.rows, columns}, f32}, {Shape{a.rounds ? rounded_bytes(a.rows * columns) : 0}, u8}};
}

TensorList rounded_linear_reference(const OpCall& call) {
  const auto a = call.as<RoundedLinearAttrs>();
  const RoundedParts parts = parts_of(call.in[kX], a.rows, a.columns);
  const std::int64_t blocks = a.columns / kRoundedBlock;
  Tensor x = (parts.codes.to(f32).reshape({a.rows, blocks, kRoundedBlock}) * parts.scales.unsqueeze(-1))
                 .reshape({a.rows, a.columns});
  if (a.normed) x = x / sqrt(sum(parts.squares, {-1}, true) / static_cast<double>(a.columns) + a.linear.eps);
  std::vector<QuantizedTensor> weights;
  for (int i = 0; i < a.linear.weights; ++i) {
    weights.emplace_back(a.linear.block_format(i), Shape{a.linear.rows[i], a.columns},
                         call.in[static_cast<std::size_t>(kBlocks + i)]);
  }
  std::vector<Tensor> dense;
  for (const QuantizedTensor& w : weights) dense.push_back(dequantize(w));
  const Tensor bias = call.in[kBias].defined() ? call.in[kBias].to(f32) : Tensor();
  Tensor y = linear(x, cat(dense), bias);
  if (a.linear.gate != Gate::none) {
    const Tensor left = y.slice(1, 0, a.linear.rows[0]), right = y.slice(1, a.linear.rows[0], 2 * a.linear.rows[0]);
    y = gated(a.linear.gate, left) * right;
  }
  if (call.in[kResidual].defined()) y = y + call.in[kResidual].to(f32);
  return {y, a.rounds ? rounded_reference(y, call.in[kNorm]) : zeros({0}, {u8, y.device()})};
}

const OpDef kRoundedLinear = {.name = "rounded_linear",
                              .infer = infer_rounded_linear,
                              .gpu = rounded_linear_gpu,
                              .reference = rounded_linear_reference};

}  // namespace

namespace quantized {

RoundedParts parts_of(const Tensor& bytes, std::int64_t rows, std::int64_t columns) {
  Tensor all = bytes.contiguous();
  if (all.offset() % 4 != 0) all = all.clone();
  const std::int64_t blocks = columns / kRoundedBlock, at = (all.offset() + rows * columns) / 4;
  const auto view = [&](DType dtype, std::int64_t size, std::int64_t offset) {
    return detail::make_view(all.storage(), all.device(), dtype, {rows, size}, {size, 1}, offset);
  };
  return {view(i8, columns, all.offset()), view(f32, blocks, at), view(f32, blocks, at + rows * blocks)};
}

}  // namespace quantized

RoundedRows round_rows(const Tensor& x, const Tensor& norm, DType dtype, double eps) {
  detail::require_defined("round_rows", x);
  if (x.dim() == 0) throw ShapeError("round_rows: x has no dimensions; wanted [..., K]");
  if (dtype == f16 || dtype == bf16) return quantized::rows_in_halves(x, norm, dtype, eps);
  if (dtype != i8)
    throw DtypeError(fmt::format("round_rows: rows are rounded to i8, f16 or bf16, not {}", name(dtype)));
  const std::int64_t columns = x.size(-1), rows = columns == 0 ? 0 : x.numel() / columns;
  const Tensor flat = x.detach().reshape({rows, columns});
  return {apply1(kRound, {flat, norm.defined() ? norm.detach() : norm}), x.shape(), norm.defined()};
}

RoundedLinearResult quantized_linear(const RoundedRows& x, std::span<const QuantizedTensor> weights,
                                     const RoundedLinearOptions& options) {
  constexpr const char* kName = "rounded_linear";
  detail::require_defined(kName, x.data);
  if (!x.in_bytes()) return quantized::linear_of_halves(x, weights, options);
  RoundedLinearAttrs a;
  a.columns = x.shape.back();
  a.rows = a.columns == 0 ? 0 : numel(x.shape) / a.columns;
  a.normed = x.normed;
  a.rounds = options.rounds == i8;
  std::vector<Tensor> in{x.data, options.bias, options.next_norm, options.residual};
  a.linear = linear_attrs(kName, x.shape, weights, options.gate, in);
  a.linear.eps = options.eps;
  Shape shape = x.shape;
  shape.back() = a.linear.columns();
  if (in[kResidual].defined()) {
    if (in[kResidual].shape() != shape) {
      throw ShapeError(fmt::format("{}: the residual is {}; wanted {}", kName, str(in[kResidual].shape()), str(shape)));
    }
    in[kResidual] = in[kResidual].reshape({a.rows, shape.back()});
  }
  for (Tensor& t : in)
    if (t.defined()) t = t.detach();
  const TensorList out = apply(kRoundedLinear, in, Attrs::of(a));
  RoundedLinearResult result{out[0].reshape(shape), {}};
  if (a.rounds) result.rounded = {out[1], shape, options.next_norm.defined()};
  return result;
}

std::span<const OpDef* const> ops_in_rounded_rows() {
  static const OpDef* const list[] = {&kRound, &kRoundedLinear};
  return list;
}

}  // namespace etna
