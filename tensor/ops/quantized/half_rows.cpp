#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/half_rows.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>
#include <etna/tensor/ops/reduce/reduce.h>

// half_rows and half_linear: rows in f16 or bf16, made once for the products that follow.
namespace etna {
namespace {

using namespace quantized;

void check_norm(const OpCall& call, const Tensor& norm, std::int64_t columns) {
  if (norm.defined() && (norm.shape() != Shape{columns} || !is_floating(norm.dtype()))) {
    throw ShapeError(fmt::format("{}: the norm's weight is {} {}; wanted [{}] of a floating dtype", call.op.name,
                                 name(norm.dtype()), str(norm.shape()), columns));
  }
}

/// What 2^14 to 2^15 times a power of two is: the largest result, or what bounds it. f32 [1], 1 for nothing but zeros.
Tensor power_below(const Tensor& largest) {
  const Tensor exponent = floor(log(where(largest > 0.0, largest, 16384.0)) / std::log(2.0)) - 14.0;
  return exp(clamp(exponent, -100.0, 113.0) * std::log(2.0));
}

/// Rows and, for f16, the factor; an empty one for bf16. @param x [m, k] f32
TensorList halves_reference(const Tensor& x, const Tensor& norm, double eps, DType dtype) {
  const Tensor y = norm.defined() && x.numel() > 0 ? rms_norm(x, norm.to(f32), eps) : x;
  if (dtype != f16) return {y.to(dtype), zeros({0}, {f32, x.device()})};
  if (x.numel() == 0) return {y.to(f16), ones({1}, {f32, x.device()})};
  const Tensor bound = norm.defined() ? abs(norm.to(f32)) : abs(y);
  const Tensor most = amax(where(isfinite(bound), bound, 0.0).reshape({bound.numel()}), {0}, true);
  const Tensor factor = power_below(norm.defined() ? most * std::sqrt(static_cast<double>(x.size(1))) : most);
  return {(y / factor).to(f16), factor};
}

std::vector<OutputSpec> half_rows_infer_rows(const OpCall& call) {
  const Tensor& x = call.in[kToRound];
  const DType dtype = call.as<HalfRowsAttrs>().dtype;
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("{}: x is {}; wanted a floating dtype", call.op.name, name(x.dtype())));
  check_norm(call, call.in[kRoundNorm], x.size(1));
  return {{x.shape(), dtype}, {Shape{dtype == f16 ? 1 : 0}, f32}};
}

TensorList half_rows_reference(const OpCall& call) {
  const auto a = call.as<HalfRowsAttrs>();
  return halves_reference(call.in[kToRound].to(f32), call.in[kRoundNorm], a.eps, a.dtype);
}

const OpDef kHalfRows = {
    .name = "half_rows", .infer = half_rows_infer_rows, .gpu = half_rows_gpu, .reference = half_rows_reference};

std::vector<OutputSpec> half_rows_infer_linear(const OpCall& call) {
  const auto a = call.as<HalfLinearAttrs>();
  const Tensor &x = call.in[kX], &bias = call.in[kBias], &residual = call.in[kResidual];
  const std::int64_t rows = x.size(0), columns = a.linear.columns();
  const std::int64_t all = a.linear.rows[0] + a.linear.rows[1] + a.linear.rows[2];
  if (bias.defined() && bias.shape() != Shape{all})
    throw ShapeError(fmt::format("{}: the bias is {}; wanted [{}]", call.op.name, str(bias.shape()), all));
  if (residual.defined() && residual.shape() != Shape{rows, columns}) {
    throw ShapeError(
        fmt::format("{}: the residual is {}; wanted [{}, {}]", call.op.name, str(residual.shape()), rows, columns));
  }
  check_norm(call, call.in[kNorm], columns);
  std::vector<OutputSpec> out{{Shape{rows, columns}, a.linear.dtype}};
  if (a.next) {
    out.push_back({Shape{rows, columns}, *a.next});
    out.push_back({Shape{*a.next == f16 ? 1 : 0}, f32});
  }
  return out;
}

TensorList half_rows_linear_reference(const OpCall& call) {
  const auto a = call.as<HalfLinearAttrs>();
  const Tensor& factor = call.in[static_cast<std::size_t>(kBlocks + a.linear.weights)];
  const Tensor x = factor.defined() ? call.in[kX].to(f32) * factor : call.in[kX].to(f32);
  const std::int64_t k = x.size(1);
  std::vector<Tensor> dense;
  for (int i = 0; i < a.linear.weights; ++i) {
    dense.push_back(dequantize(QuantizedTensor(a.linear.block_format(i), Shape{a.linear.rows[i], k},
                                               call.in[static_cast<std::size_t>(kBlocks + i)])));
  }
  Tensor y = linear(x, cat(dense), call.in[kBias].defined() ? call.in[kBias].to(f32) : Tensor());
  if (a.linear.gate != Gate::none) {
    const Tensor left = y.slice(1, 0, a.linear.rows[0]), right = y.slice(1, a.linear.rows[0], 2 * a.linear.rows[0]);
    y = gated(a.linear.gate, left) * right;
  }
  if (call.in[kResidual].defined()) y = y + call.in[kResidual].to(f32);
  TensorList out{y.to(a.linear.dtype)};
  if (a.next) {
    const TensorList next = halves_reference(y, call.in[kNorm], a.next_eps, *a.next);
    out.insert(out.end(), next.begin(), next.end());
  }
  return out;
}

const OpDef kHalfLinear = {.name = "half_linear",
                           .infer = half_rows_infer_linear,
                           .gpu = half_linear_gpu,
                           .reference = half_rows_linear_reference};

}  // namespace

namespace quantized {

RoundedRows rows_in_halves(const Tensor& x, const Tensor& norm, DType dtype, double eps) {
  const std::int64_t columns = x.size(-1), rows = columns == 0 ? 0 : x.numel() / columns;
  const Tensor flat = x.detach().reshape({rows, columns});
  if (!norm.defined() && x.dtype() == dtype) return {flat, x.shape()};
  const TensorList out =
      apply(kHalfRows, {flat, norm.defined() ? norm.detach() : norm}, Attrs::of(HalfRowsAttrs{dtype, eps}));
  return {out[0], x.shape(), false, dtype == f16 ? out[1] : Tensor()};
}

RoundedLinearResult linear_of_halves(const RoundedRows& x, std::span<const QuantizedTensor> weights,
                                     const RoundedLinearOptions& options) {
  constexpr const char* kName = "half_linear";
  HalfLinearAttrs a;
  std::vector<Tensor> in{x.data, options.bias, Tensor(), Tensor()};
  a.linear = linear_attrs(kName, x.shape, weights, options.gate, in);
  in.push_back(x.factor);
  Shape shape = x.shape;
  shape.back() = a.linear.columns();
  const std::int64_t rows = x.data.size(0);
  if (options.residual.defined()) {
    if (options.residual.shape() != shape) {
      throw ShapeError(
          fmt::format("{}: the residual is {}; wanted {}", kName, str(options.residual.shape()), str(shape)));
    }
    in[kResidual] = options.residual.reshape({rows, shape.back()});
  }
  // bf16 holds any result, which then is all that is needed of it without a norm behind it.
  const bool narrow = options.rounds == bf16 && !options.next_norm.defined();
  if ((options.rounds == f16 || options.rounds == bf16) && !narrow) {
    in[kNorm] = options.next_norm;
    a.next = options.rounds;
    a.next_eps = options.next_eps;
  }
  a.linear.dtype = narrow ? bf16 : f32;
  for (Tensor& t : in)
    if (t.defined()) t = t.detach();
  const TensorList out = apply(kHalfLinear, in, Attrs::of(a));
  RoundedLinearResult result{out[0].reshape(shape), {}};
  if (a.next) result.rounded = {out[1], shape, false, *a.next == f16 ? out[2] : Tensor()};
  if (narrow) result.rounded = {out[0], shape};
  return result;
}

}  // namespace quantized

std::span<const OpDef* const> ops_in_half_rows() {
  static const OpDef* const list[] = {&kHalfLinear, &kHalfRows};
  return list;
}

}  // namespace etna
