#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/loss/internal/linear_cross_entropy.h>
#include <etna/tensor/ops/matmul/gemm/internal/gradients.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

// A linear layer and the cross-entropy of its result. Forward also computes the gradients while a chunk of logits is in
// memory. Backward multiplies them by the gradient of the loss, which is not known earlier.
namespace etna {
namespace {

using LinearCrossEntropyAttrs = loss::chunked::LinearCrossEntropyAttrs;
enum LinearCrossEntropyInput { kLossX, kLossWeight, kLossBias, kLossTarget };

/// In f16 the gradients of x would underflow before a loss scale is applied.
DType gradient_dtype(DType x) { return x == f16 ? f32 : x; }
/// As in linear: rounded only when a narrower leaf accumulates them.
DType sum_dtype(DType t) { return t == f64 ? f64 : f32; }

std::vector<OutputSpec> linear_cross_entropy_infer(const OpCall& call) {
  const Tensor &x = call.in[kLossX], &weight = call.in[kLossWeight], &bias = call.in[kLossBias],
               &target = call.in[kLossTarget];
  auto a = call.as<LinearCrossEntropyAttrs>();
  for (const Tensor& t : {x, weight, bias}) {
    if (!t.defined()) continue;
    if (!is_floating(t.dtype())) {
      throw DtypeError(fmt::format("linear_cross_entropy: an input {} holds {}; x, weight and bias are floating",
                                   str(t.shape()), name(t.dtype())));
    }
  }
  if (weight.dtype() != x.dtype() || (bias.defined() && promote(bias.dtype(), x.dtype()) != bias.dtype())) {
    throw DtypeError(fmt::format("linear_cross_entropy: x holds {}, the weight {}{}; bring them to one dtype",
                                 name(x.dtype()), name(weight.dtype()),
                                 bias.defined() ? fmt::format(", the bias {}", name(bias.dtype())) : ""));
  }
  if (target.dtype() != i64 && target.dtype() != i32) {
    throw DtypeError(fmt::format("linear_cross_entropy: the targets hold {}; class indices must be i64 or i32",
                                 name(target.dtype())));
  }
  if (x.dim() != 2 || target.dim() != 1 || x.size(0) != target.size(0)) {
    throw ShapeError(fmt::format("linear_cross_entropy: got x {} and targets {}, wanted [N, E] and [N]{}",
                                 str(x.shape()), str(target.shape()),
                                 x.dim() > 2 ? "; flatten all but the last dimension first" : ""));
  }
  if (weight.dim() != 2 || weight.size(1) != x.size(1) || weight.size(0) == 0) {
    throw ShapeError(fmt::format("linear_cross_entropy: x {} does not fit the weight {}, which is [classes, {}]",
                                 str(x.shape()), str(weight.shape()), x.size(1)));
  }
  if (bias.defined() && bias.shape() != Shape{weight.size(0)}) {
    throw ShapeError(fmt::format("linear_cross_entropy: the bias {} does not fit the weight {}; it must be [{}]",
                                 str(bias.shape()), str(weight.shape()), weight.size(0)));
  }
  if (!(a.loss.label_smoothing >= 0 && a.loss.label_smoothing <= 1)) {
    throw ShapeError(
        fmt::format("linear_cross_entropy: label_smoothing is {}, it must lie in [0, 1]", a.loss.label_smoothing));
  }
  std::vector<OutputSpec> out = {{{}, sum_dtype(x.dtype())}};
  if (a.wants_x) out.push_back({x.shape(), gradient_dtype(x.dtype())});
  if (a.wants_weight) out.push_back({weight.shape(), sum_dtype(x.dtype())});
  if (a.wants_bias) out.push_back({bias.shape(), sum_dtype(x.dtype())});
  return out;
}

/// The loss, and the wanted gradients for a gradient `g` of the loss; composed of differentiable ops.
TensorList composed(std::span<const Tensor> in, const LinearCrossEntropyAttrs& a, const Tensor& g, bool widens) {
  Tensor x = in[kLossX], weight = in[kLossWeight], bias = in[kLossBias];
  if (widens) {
    DType t = sum_dtype(x.dtype());
    x = x.to(t), weight = weight.to(t), bias = bias.defined() ? bias.to(t) : bias;
  }
  Tensor logits = linear(x, weight, bias.defined() ? bias.to(x.dtype()) : bias);
  loss::LossAndGradient found = loss::loss_and_gradient(logits, in[kLossTarget], g, a.loss);
  TensorList out = {found.loss};
  if (a.wants_x) out.push_back(matmul(found.gradient, weight));
  if (a.wants_weight) out.push_back(gemm::weight_gradient(found.gradient, x));
  if (a.wants_bias) out.push_back(gemm::bias_gradient(found.gradient));
  return out;
}

TensorList linear_cross_entropy_reference(const OpCall& call) {
  const Tensor& x = call.in[kLossX];
  TensorList out =
      composed(call.in, call.as<LinearCrossEntropyAttrs>(), ones({}, {sum_dtype(x.dtype()), x.device()}), true);
  if (call.as<LinearCrossEntropyAttrs>().wants_x) out[1] = out[1].to(gradient_dtype(x.dtype()));
  return out;
}

TensorList linear_cross_entropy_vjp(const VjpCall& call) {
  auto a = call.as<LinearCrossEntropyAttrs>();
  TensorList grads(4);
  const Tensor& g = call.grad[0];
  if (!g.defined()) return grads;
  TensorList found;
  if (grad_enabled()) {
    found = composed(call.in, a, g, false);
    found.erase(found.begin());
  } else {
    found.assign(call.out.begin() + 1, call.out.end());
    // If g is known to be ones (backward() of the loss itself), the gradients need no scaling.
    if (!detail::holds_ones(g)) found = multiply_all(found, g);
  }
  std::size_t next = 0;
  if (a.wants_x) grads[kLossX] = found[next++].to(call.in[kLossX].dtype());
  if (a.wants_weight) grads[kLossWeight] = found[next++];
  if (a.wants_bias) grads[kLossBias] = found[next];
  return grads;
}

const OpDef kLinearCrossEntropy = {.name = "linear_cross_entropy",
                                   .infer = linear_cross_entropy_infer,
                                   .cpu = loss::chunked::cpu,
                                   .gpu = loss::chunked::gpu,
                                   .reference = linear_cross_entropy_reference,
                                   .vjp = linear_cross_entropy_vjp,
                                   .saved = Saved::both,
                                   .saved_outputs = ~1u};

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias,
                            std::int64_t ignore_index, double label_smoothing, Reduction reduction) {
  detail::require_defined("linear_cross_entropy", x, weight, target);
  if (reduction == Reduction::none) {
    return cross_entropy(linear(x, weight, bias), target, ignore_index, label_smoothing, reduction);
  }
  TensorList in = {x, weight, bias};
  detail::bring_to_one_dtype(in, 1u << kLossBias);
  auto wants = [](const Tensor& t) { return grad_enabled() && t.requires_grad(); };
  const LinearCrossEntropyAttrs a{
      {ignore_index, label_smoothing, reduction}, wants(in[kLossX]), wants(in[kLossWeight]), wants(in[kLossBias])};
  in.push_back(target);
  return apply(kLinearCrossEntropy, in, Attrs::of(a))[0];
}

std::span<const OpDef* const> ops_in_linear_cross_entropy() {
  static const OpDef* const list[] = {&kLinearCrossEntropy};
  return list;
}

}  // namespace etna
