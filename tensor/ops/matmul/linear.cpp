#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/activations/internal/table.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/matmul/gemm/internal/gradients.h>
#include <etna/tensor/ops/matmul/gemm/internal/linear_layer.h>

namespace etna {
namespace {

using LinearAttrs = gemm::LinearAttrs;

std::vector<OutputSpec> linear_infer(const OpCall& call) {
  const Tensor &x = call.in[0], &weight = call.in[1], &bias = call.in[2];
  gemm::check_dtypes(call, 1u << 2);
  if (weight.dim() != 2) {
    throw ShapeError(fmt::format("linear: the weight {} has {} dimensions, it must be [out, in]", str(weight.shape()),
                                 weight.dim()));
  }
  if (x.dim() == 0 || x.size(-1) != weight.size(1)) {
    bool transposed_fits = x.dim() > 0 && x.size(-1) == weight.size(0);
    throw ShapeError(fmt::format("linear: x {} does not fit the weight {}, which is [out, in]: the last sizes differ{}",
                                 str(x.shape()), str(weight.shape()),
                                 transposed_fits ? "; did you mean weight.t()?" : ""));
  }
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != weight.size(0))) {
    throw ShapeError(fmt::format("linear: the bias {} does not fit the weight {}; it must be [{}]", str(bias.shape()),
                                 str(weight.shape()), weight.size(0)));
  }
  Shape shape = x.shape();
  shape.back() = weight.size(0);
  return {call.as<LinearAttrs>().keeps ? 2u : 1u, OutputSpec{shape, x.dtype()}};
}

void linear_compute(const OpCall& call, std::span<Tensor> out, const auto& gemm) {
  gemm::Epilogue e{.bias = call.in[2], .activation = call.as<LinearAttrs>().activation};
  if (out.size() > 1) e.preactivation = out[1];
  gemm(gemm::as_rows(call.in[0]), call.in[1].t(), e, out[0]);
}

void linear_cpu(const OpCall& call, std::span<Tensor> out) { linear_compute(call, out, gemm::cpu); }
bool linear_gpu(const OpCall& call, std::span<Tensor> out) {
  bool done = false;
  linear_compute(call, out, [&](auto&&... of) { done = gemm::on_gpu(call, of...); });
  return done;
}

TensorList linear_reference(const OpCall& call) {
  auto a = call.as<LinearAttrs>();
  Tensor t = matmul(call.in[0], call.in[1].t());
  if (call.in[2].defined()) t = t + call.in[2];
  Tensor y = activate(t, a.activation);
  return a.keeps ? TensorList{y, t} : TensorList{y};
}

TensorList linear_vjp(const VjpCall& call) {
  const Tensor &x = call.in[0], &weight = call.in[1];
  auto a = call.as<LinearAttrs>();
  Tensor g = call.grad[0];
  if (a.activation != Activation::none) {
    // If this gradient is itself differentiated, a gradient of the preactivation arrives too.
    Tensor through = g.defined() ? activation_backward(g, call.out[1], a.activation) : g;
    const Tensor& inner = call.grad[1];
    g = !inner.defined() ? through : through.defined() ? through + inner : inner;
  }
  Tensor dx, dweight, dbias;
  // dx comes last: if an activation made x, its gradient is the next call, and runs in this gemm's epilogue
  // (matmul_derivative). What that saves, a pass over the hidden values, is more than a barrier that an eager step may
  // need because the next call reads what was queued last. Captured steps order commands by what they read.
  if (call.needs[1]) dweight = gemm::weight_gradient(g, x);
  if (call.needs[2]) dbias = gemm::bias_gradient(g);
  if (call.needs[0]) dx = matmul(g, weight);
  return {dx, dweight, dbias};
}

/// Replaces a linear layer and the activation of its result. If backward or the program still needs the layer's result,
/// the fused op writes it, too.
bool fuse_activation(fusion::Calls calls, fusion::Fused& fused) {
  const fusion::Call &layer = calls[0], &activation = calls[1];
  const Tensor& x = layer.out[0];
  if (layer.attrs.as<LinearAttrs>().activation != Activation::none || activation.out[0].dtype() != x.dtype() ||
      fusion::rounds_when_stored(x)) {
    return false;
  }
  fused.in = layer.in;
  fused.out = {activation.out[0]};
  const bool keeps = !fusion::dead(calls, 0);
  if (keeps) fused.out.push_back(x);
  fused.attrs = Attrs::of(LinearAttrs{gemm::activation_of(*activation.op), keeps});
  return true;
}
constexpr FusionPattern kThenActivation[] = {{activations::kAfterLinear, fuse_activation}};

const OpDef kLinear = {.name = "linear",
                       .infer = linear_infer,
                       .cpu = linear_cpu,
                       .gpu = linear_gpu,
                       .reference = linear_reference,
                       .vjp = linear_vjp,
                       .saved = Saved::both,
                       .saved_inputs = 1u << 0 | 1u << 1,
                       .saved_outputs = 1u << 1,
                       .replaces = kThenActivation};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  TensorList in = {x, weight, bias};
  detail::bring_to_one_dtype(in, 1u << 2);
  bool keeps = activation != Activation::none && grad_recorder().wants(in);
  return apply(kLinear, in, Attrs::of(LinearAttrs{activation, keeps}))[0];
}

std::span<const OpDef* const> ops_in_linear() {
  static const OpDef* const list[] = {&kLinear};
  return list;
}

}  // namespace etna
