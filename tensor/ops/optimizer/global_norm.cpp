#include <cmath>

#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/norm.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

namespace etna {
namespace {

using optimizer::add_norm_spec;
using optimizer::kernel_over;
using optimizer::Rows;
using optimizer::widest;

// ---- global_norm

struct GlobalNormAttrs {
  double order;
};

std::uint32_t order_code(double order) { return order == 1 ? 1 : order == 2 ? 2 : 0; }

std::vector<OutputSpec> global_norm_infer(const OpCall& call) {
  double order = call.as<GlobalNormAttrs>().order;
  if (order != 1 && order != 2 && order != HUGE_VAL)
    throw Error(fmt::format("{}: order is {}; wanted 1, 2 or infinity", call.op.name, order));
  optimizer::require_floating(call, call.in);
  return {{Shape{}, widest(call.in)}};
}

void global_norm_cpu(const OpCall& call, std::span<Tensor> out) {
  out[0].fill_(optimizer::norm_on_cpu(call.in, call.as<GlobalNormAttrs>().order));
}

bool global_norm_gpu(const OpCall& call, std::span<Tensor> out) {
  if (widest(call.in) == f64) return false;
  Rows rows = optimizer::rows_of(call.in, Access::read);
  if (rows.empty()) {
    out[0].fill_(0);
    return true;
  }
  const std::uint32_t order = order_code(call.as<GlobalNormAttrs>().order);
  optimizer::norm_total(call, shaders::global_norm_total, rows, out[0].device(), order)
      .write(out[0])
      .read(Tensor())
      .f32(0)
      .dispatch(1);
  return true;
}

TensorList global_norm_reference(const OpCall& call) {
  return {optimizer::composed_norm(call.in, call.as<GlobalNormAttrs>().order)};
}

const OpDef kGlobalNorm = {.name = "global_norm",
                           .infer = global_norm_infer,
                           .cpu = global_norm_cpu,
                           .gpu = global_norm_gpu,
                           .reference = global_norm_reference};

// ---- scale_to_norm_: inputs norm, tensors ...

struct ScaleAttrs {
  double max_norm;
};
constexpr double kGlobalNormEps = 1e-6;

std::vector<OutputSpec> scale_to_norm_infer(const OpCall& call) {
  optimizer::require_floating(call, call.in);
  if (call.in[0].numel() != 1)
    throw ShapeError(fmt::format("{}: the norm {} must have one element", call.op.name, str(call.in[0].shape())));
  std::vector<OutputSpec> out;
  for (std::size_t i = 1; i < call.in.size(); ++i)
    out.push_back({call.in[i].shape(), call.in[i].dtype(), static_cast<int>(i)});
  return out;
}

/// The scale factor as a tensor on the norm's device.
Tensor scale_factor(const OpCall& call, DType dtype) {
  return clamp(call.as<ScaleAttrs>().max_norm / (call.in[0].to(dtype) + kGlobalNormEps), {}, 1.0);
}

void scale_to_norm_cpu(const OpCall& call, std::span<Tensor> out) {
  double factor = call.as<ScaleAttrs>().max_norm / (call.in[0].item<double>() + kGlobalNormEps);
  if (factor >= 1) return;
  for (Tensor& x : out) x.mul_(factor);
}

bool scale_to_norm_gpu(const OpCall& call, std::span<Tensor> out) {
  if (widest(call.in) == f64) return false;
  TensorList dense;
  for (Tensor& x : out) {
    if (x.is_contiguous())
      dense.push_back(x);
    else
      x.mul_(scale_factor(call, f32));  // mul_() also handles a gradient that is a transposed view
  }
  Rows rows = optimizer::rows_of(dense, Access::read_write);
  if (rows.empty()) return true;
  const Tensor norm = call.in[0].to(f32);
  gpu::Kernel kernel = kernel_over(shaders::scale_to_norm, call, rows, norm.device());
  add_norm_spec(kernel, rows);
  kernel.read(Tensor())
      .read(norm)
      .read(Tensor())
      .f32(static_cast<float>(call.as<ScaleAttrs>().max_norm))
      .dispatch(gpu::grid(rows.chunks.count()));
  return true;
}

TensorList scale_to_norm_reference(const OpCall& call) {
  DType t = widest(call.in);
  Tensor factor = scale_factor(call, t);
  TensorList out;
  for (const Tensor& x : call.in.subspan(1)) out.push_back((x.to(t) * factor).to(x.dtype()));
  return out;
}

const OpDef kScaleToNorm = {.name = "scale_to_norm_",
                            .infer = scale_to_norm_infer,
                            .cpu = scale_to_norm_cpu,
                            .gpu = scale_to_norm_gpu,
                            .reference = scale_to_norm_reference};

// ---- multiply_all: inputs factor, tensors ...

std::vector<OutputSpec> multiply_all_infer(const OpCall& call) {
  optimizer::require_floating(call, call.in);
  if (call.in[0].numel() != 1)
    throw ShapeError(fmt::format("{}: the factor {} must have one element", call.op.name, str(call.in[0].shape())));
  std::vector<OutputSpec> out;
  for (const Tensor& x : call.in.subspan(1)) out.push_back({x.shape(), x.dtype()});
  return out;
}

TensorList multiply_all_reference(const OpCall& call) {
  TensorList out;
  for (const Tensor& x : call.in.subspan(1)) {
    DType t = x.dtype() == f64 ? f64 : f32;
    out.push_back((x.to(t) * call.in[0].reshape({}).to(t)).to(x.dtype()));
  }
  return out;
}

void multiply_all_cpu(const OpCall& call, std::span<Tensor> out) {
  TensorList products = multiply_all_reference(call);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].copy_(products[i]);
}

bool multiply_all_gpu(const OpCall& call, std::span<Tensor> out) {
  if (widest(call.in) == f64) return false;
  Rows rows(optimizer::kNormChunk);
  for (std::size_t i = 0; i < out.size(); ++i) rows.add({{call.in[i + 1], Access::read}, {out[i], Access::write}});
  if (rows.empty()) return true;
  const Tensor factor = call.in[0].to(f32);
  gpu::Kernel kernel = kernel_over(shaders::multiply_all, call, rows, factor.device());
  add_norm_spec(kernel, rows);
  kernel.read(Tensor()).read(factor).read(Tensor()).f32(0).dispatch(gpu::grid(rows.chunks.count()));
  return true;
}

const OpDef kMultiplyAll = {.name = "multiply_all",
                            .infer = multiply_all_infer,
                            .cpu = multiply_all_cpu,
                            .gpu = multiply_all_gpu,
                            .reference = multiply_all_reference};

}  // namespace

Tensor global_norm(std::span<const Tensor> tensors, double order) {
  if (tensors.empty()) return zeros({});
  return apply(kGlobalNorm, tensors, Attrs::of(GlobalNormAttrs{order}))[0];
}

void scale_to_norm_(std::span<const Tensor> tensors, const Tensor& norm, double max_norm) {
  if (tensors.empty()) return;
  GradMode off(false);
  TensorList list = {norm};
  list.insert(list.end(), tensors.begin(), tensors.end());
  apply(kScaleToNorm, list, Attrs::of(ScaleAttrs{max_norm}));
}

TensorList multiply_all(std::span<const Tensor> tensors, const Tensor& factor) {
  if (tensors.empty()) return {};
  TensorList list = {factor};
  list.insert(list.end(), tensors.begin(), tensors.end());
  return etna::apply(kMultiplyAll, list);
}

std::span<const OpDef* const> ops_in_global_norm() {
  static const OpDef* const list[] = {&kGlobalNorm, &kScaleToNorm, &kMultiplyAll};
  return list;
}

}  // namespace etna
