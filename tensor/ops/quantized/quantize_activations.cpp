#include <cmath>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/normalization/internal/norm.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>
#include <etna/tensor/ops/reduce/reduce.h>

// quantize_activations: quantizes activations to bytes in blocks, f16 or bf16, once for all matmuls that read them.
namespace etna::quantized {
namespace {

Tensor activations_bytes_of(const Tensor& x) {
  const Tensor dense = x.contiguous();
  const auto size = static_cast<std::int64_t>(item_size(x.dtype()));
  return detail::make_view(dense.storage(), dense.device(), u8, {dense.numel() * size}, {1}, dense.offset() * size);
}

Shape in_bytes(Shape shape) {
  shape.back() = activation_bytes(shape.back());
  return shape;
}

/// @param x [..., K] f32 @param norm [K] or undefined
Tensor bytes_reference(const Tensor& x, const Tensor& norm) {
  const Shape blocks{x.numel() / kActivationBlock, kActivationBlock};
  if (x.numel() == 0) return zeros(in_bytes(x.shape()), {u8, x.device()});
  const Tensor given = x.reshape(blocks), values = (norm.defined() ? x * norm.to(f32) : x).reshape(blocks);
  const Tensor most = amax(abs(values), {-1}, true), scale = most / 127.0, inverse = 1.0 / scale;
  const Tensor some = logical_and(isfinite(most), isfinite(inverse));
  const Tensor quants = where(some, round(where(some, values, 0.0) * where(some, inverse, 1.0)), 0.0);
  return cat({activations_bytes_of(quants.to(i8)),
              activations_bytes_of(where(isfinite(most), scale, zeros_like(scale) / 0.0)),
              activations_bytes_of(sum(square(given), {-1}))})
      .reshape(in_bytes(x.shape()));
}

/// The power of two p with 2^14 <= largest / p < 2^15. f32 [1]; 1 if largest is 0.
/// @param largest the largest magnitude, or a bound of it
Tensor power_below(const Tensor& largest) {
  const Tensor exponent = floor(log(where(largest > 0.0, largest, 16384.0)) / std::log(2.0)) - 14.0;
  return exp(clamp(exponent, -100.0, 113.0) * std::log(2.0));
}

std::vector<OutputSpec> quantize_activations_infer(const OpCall& call) {
  const Tensor &x = call.in[kToQuantize], &norm = call.in[kQuantizeNorm];
  const DType dtype = call.as<QuantizeAttrs>().dtype;
  if (dtype != i8 && dtype != f16 && dtype != bf16)
    throw DtypeError(fmt::format("{}: dtype is {}; wanted i8, f16 or bf16", call.op.name, name(dtype)));
  if (!is_floating(x.dtype()) || (norm.defined() && !is_floating(norm.dtype())))
    throw DtypeError(
        fmt::format("{}: x is {}; wanted a floating dtype for x and the norm's weight", call.op.name, name(x.dtype())));
  if (x.dim() == 0) throw ShapeError(fmt::format("{}: x has no dimensions; wanted [..., K]", call.op.name));
  if (dtype == i8 && x.size(-1) % kActivationBlock != 0) {
    throw ShapeError(
        fmt::format("{}: x has {} columns; wanted a multiple of {}", call.op.name, x.size(-1), kActivationBlock));
  }
  const Tensor gate = call.in.size() > kQuantizeGate ? call.in[kQuantizeGate] : Tensor();
  const bool gated = gate.defined() && norm.defined() && dtype == i8 && gate.shape() == x.shape() &&
                     gate.dtype() == x.dtype() && norm.dim() == 1 && norms_heads_of(norm.size(0)) &&
                     x.size(-1) % norm.size(0) == 0;
  if (gate.defined() && !gated)
    throw ShapeError(fmt::format("{}: the gate is {}, x {} and the norm's weight {}; they do not fit each other",
                                 call.op.name, str(gate.shape()), str(x.shape()),
                                 norm.defined() ? str(norm.shape()) : "missing"));
  if (!gated && norm.defined() && norm.shape() != Shape{x.size(-1)}) {
    throw ShapeError(
        fmt::format("{}: the norm's weight is {}; x has {} columns", call.op.name, str(norm.shape()), x.size(-1)));
  }
  return {{dtype == i8 ? in_bytes(x.shape()) : x.shape(), dtype == i8 ? u8 : dtype},
          {Shape{dtype == f16 ? 1 : 0}, f32}};
}

TensorList quantize_activations_reference(const OpCall& call) {
  const auto a = call.as<QuantizeAttrs>();
  if (call.in.size() > kQuantizeGate && call.in[kQuantizeGate].defined()) {
    const Tensor &x = call.in[kToQuantize], &norm = call.in[kQuantizeNorm];
    const Shape heads{x.numel() / norm.size(0), norm.size(0)};
    const Tensor y = normalization::gated_rms_norm(x.reshape(heads).to(f32), norm.to(f32), a.eps,
                                                   call.in[kQuantizeGate].reshape(heads).to(f32));
    return quantize_reference(y.reshape(x.shape()), {}, i8, a.eps);
  }
  return quantize_reference(call.in[kToQuantize].to(f32), call.in[kQuantizeNorm], a.dtype, a.eps);
}

}  // namespace

const OpDef kQuantizeActivations = {.name = "quantize_activations",
                                    .infer = quantize_activations_infer,
                                    .gpu = quantize_activations_gpu,
                                    .reference = quantize_activations_reference};

TensorList quantize_reference(const Tensor& x, const Tensor& norm, DType dtype, double eps) {
  const Tensor none = zeros({0}, {f32, x.device()});
  if (dtype == i8) return {bytes_reference(x, norm), none};
  const Tensor y = norm.defined() && x.numel() > 0 ? rms_norm(x, norm.to(f32), eps) : x;
  if (dtype != f16) return {y.to(dtype), none};
  if (x.numel() == 0) return {y.to(f16), ones({1}, {f32, x.device()})};
  const Tensor bound = norm.defined() ? abs(norm.to(f32)) : abs(y);
  const Tensor most = amax(where(isfinite(bound), bound, 0.0).reshape({bound.numel()}), {0}, true);
  const Tensor factor = power_below(norm.defined() ? most * std::sqrt(static_cast<double>(x.size(-1))) : most);
  return {(y / factor).to(f16), factor};
}

Shape ActivationRows::shape() const {
  Shape shape = data.shape();
  if (in_bytes) shape.back() = shape.back() / 3 * 2;
  return shape;
}

ActivationParts parts_of(const Tensor& bytes) {
  Tensor all = bytes.contiguous();
  if (all.offset() % 4 != 0) all = all.clone();
  const std::int64_t columns = bytes.size(-1) / 3 * 2, rows = columns == 0 ? 0 : all.numel() / bytes.size(-1);
  const std::int64_t blocks = columns / kActivationBlock, at = (all.offset() + rows * columns) / 4;
  const auto view = [&](DType dtype, std::int64_t size, std::int64_t offset) {
    return detail::make_view(all.storage(), all.device(), dtype, {rows, size}, {size, 1}, offset);
  };
  return {view(i8, columns, all.offset()), view(f32, blocks, at), view(f32, blocks, at + rows * blocks)};
}

Tensor numbers_of(const ActivationRows& x, double eps) {
  const Tensor data = x.in_bytes ? x.data : x.data.to(f32);
  if (!x.in_bytes) return x.factor.defined() ? data * x.factor : data;
  const ActivationParts parts = parts_of(data);
  const std::int64_t rows = parts.quants.size(0), columns = parts.quants.size(1);
  Tensor y =
      (parts.quants.to(f32).reshape({rows, columns / kActivationBlock, kActivationBlock}) * parts.scales.unsqueeze(-1))
          .reshape({rows, columns});
  if (x.normed) y = y / sqrt(sum(parts.squares, {-1}, true) / static_cast<double>(columns) + eps);
  return y.reshape(x.shape());
}

ActivationRows quantize_activations(const Tensor& x, const Tensor& norm, DType dtype, double eps) {
  detail::require_defined("quantize_activations", x);
  if (!norm.defined() && x.dtype() == dtype && (dtype == f16 || dtype == bf16)) return x.detach();
  const TensorList out = apply(kQuantizeActivations, {x.detach(), norm.defined() ? norm.detach() : norm},
                               Attrs::of(QuantizeAttrs{dtype, eps}));
  return {out[0], dtype == f16 ? out[1] : Tensor(), dtype == i8, dtype == i8 && norm.defined()};
}

}  // namespace etna::quantized

namespace etna {

std::span<const OpDef* const> ops_in_quantize_activations() {
  static const OpDef* const list[] = {&quantized::kQuantizeActivations};
  return list;
}

}  // namespace etna
