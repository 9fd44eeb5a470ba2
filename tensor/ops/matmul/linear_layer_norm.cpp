#include <algorithm>

#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm_norm.h>
#include <etna/tensor/ops/matmul/gemm/internal/gradients.h>
#include <etna/tensor/ops/matmul/gemm/internal/linear_layer.h>
#include <etna/tensor/ops/normalization/internal/norm.h>

// The end of a sublayer of a pre-norm transformer: its last gemm is added to the residual stream, whose norm the next
// sublayer reads. On a GPU this is one dispatch if rows are short and few (shaders/matmul/gemm_norm.comp), otherwise
// the gemm and add_layer_norm's kernel. Backward runs add_layer_norm's backward from the stored sum, then that of the
// layers.
namespace etna {
namespace {

struct LinearLayerNormAttrs {
  double eps = 0;
  DType out = DType::f32;  ///< dtype of the norm
  Activation activation = Activation::none;
  bool keeps = false;  ///< feed_forward: two more outputs, the hidden values and the preactivation
};

// Inputs: those of the layers, followed by these.
enum End { kNormResidual, kNormWeight, kNormShift, kEndInputs };
constexpr std::size_t kLayer = 3, kLayers = 5;  ///< number of inputs of one linear layer, and of two

std::vector<OutputSpec> infer_of(const OpCall& call, std::size_t layers) {
  const Tensor &x = call.in[0], &residual = call.in[layers + kNormResidual];
  std::uint32_t biases = layers == kLayer ? 1u << 2 : 1u << 2 | 1u << 4;
  gemm::check_dtypes(call, biases, 7u << layers);
  if (x.dim() == 0) throw ShapeError(fmt::format("{}: x has no dimensions; it must be [..., in]", call.op.name));
  Shape hidden = x.shape(), out = x.shape();
  gemm::check_linear_layer(call, layers == kLayer ? "linear" : "up", x.size(-1), call.in[1], call.in[2]);
  if (layers == kLayers) {
    hidden.back() = call.in[1].size(0);
    gemm::check_linear_layer(call, "down", hidden.back(), call.in[3], call.in[4]);
  }
  out.back() = call.in[layers - 2].size(0);
  if (residual.shape() != out) {
    throw ShapeError(fmt::format("{}: the residual is {}, the layer gives {}; both must have one shape", call.op.name,
                                 str(residual.shape()), str(out)));
  }
  if (promote(residual.dtype(), x.dtype()) != residual.dtype()) {
    throw DtypeError(fmt::format("{}: the residual is {}, the layer computes in {}; the residual must be no narrower",
                                 call.op.name, name(residual.dtype()), name(x.dtype())));
  }
  normalization::check_parameter(call, residual, call.in[layers + kNormWeight], "weight");
  normalization::check_parameter(call, residual, call.in[layers + kNormShift], "bias");
  auto a = call.as<LinearLayerNormAttrs>();
  std::vector<OutputSpec> specs = {{out, residual.dtype()}, {out, a.out}};
  if (a.keeps) specs.insert(specs.end(), 2, OutputSpec{hidden, x.dtype()});
  return specs;
}
std::vector<OutputSpec> linear_layer_norm_infer(const OpCall& call) { return infer_of(call, kLayer); }
std::vector<OutputSpec> feed_forward_layer_norm_infer(const OpCall& call) { return infer_of(call, kLayers); }

/// Runs the last layer as a separate gemm, then the sum and its norm in one pass.
/// @param gemm, normalize return true if they have a kernel
bool end_in_two(const OpCall& call, const Tensor& h, std::span<Tensor> out, const auto& gemm, const auto& normalize) {
  auto a = call.as<LinearLayerNormAttrs>();
  std::span<const Tensor> end = call.in.last(kEndInputs);
  const Tensor &w = call.in[call.in.size() - kEndInputs - 2], &bias = call.in[call.in.size() - kEndInputs - 1];
  Tensor delta = empty(out[0].shape(), {h.dtype(), h.device()});
  if (!gemm(gemm::as_rows(h), w.t(), gemm::Epilogue{.bias = bias}, delta)) return false;
  const Tensor in[] = {end[kNormResidual], delta, end[kNormWeight], end[kNormShift]};
  Attrs attrs = Attrs::of(normalization::NormAttrs{a.eps, false, true, a.out});
  return normalize(OpCall{call.op, in, attrs}, out.first(2));
}

bool end_cpu(const OpCall& call, const Tensor& h, std::span<Tensor> out) {
  return end_in_two(
      call, h, out, [](auto&&... of) { return gemm::cpu(of...), true; },
      [](auto&&... of) { return normalization::forward_cpu(of...), true; });
}

bool end_gpu(const OpCall& call, const Tensor& h, std::span<Tensor> out) {
  std::span<const Tensor> end = call.in.last(kEndInputs);
  const std::size_t layer = call.in.size() - kEndInputs - 2;
  gemm::GemmNorm n{call.in[layer + 1], end[kNormResidual], end[kNormWeight], end[kNormShift],
                   call.as<LinearLayerNormAttrs>().eps};
  return gemm::gemm_norm_on_gpu(call, h, call.in[layer], n, out[0], out[1]) ||
         end_in_two(
             call, h, out, [&](auto&&... of) { return gemm::on_gpu(call, of...); }, normalization::forward_gpu);
}

void linear_layer_norm_cpu(const OpCall& call, std::span<Tensor> out) { end_cpu(call, call.in[0], out); }
bool linear_layer_norm_gpu(const OpCall& call, std::span<Tensor> out) { return end_gpu(call, call.in[0], out); }

/// @param gemm, end return true if they have a kernel
bool feed_forward(const OpCall& call, std::span<Tensor> out, const auto& gemm, const auto& end) {
  const Tensor& x = call.in[0];
  gemm::Epilogue first{.bias = call.in[2], .activation = call.as<LinearLayerNormAttrs>().activation};
  Tensor hidden;
  if (out.size() > 2) {
    hidden = out[2];
    first.preactivation = gemm::as_rows(out[3]);
  } else {
    Shape shape = x.shape();
    shape.back() = call.in[1].size(0);
    hidden = empty(shape, {x.dtype(), x.device()});
  }
  Tensor rows = gemm::as_rows(hidden);
  return gemm(gemm::as_rows(x), call.in[1].t(), first, rows) && end(call, hidden, out);
}
void feed_forward_layer_norm_cpu(const OpCall& call, std::span<Tensor> out) {
  feed_forward(
      call, out, [](auto&&... of) { return gemm::cpu(of...), true; }, end_cpu);
}
bool feed_forward_layer_norm_gpu(const OpCall& call, std::span<Tensor> out) {
  return feed_forward(
      call, out, [&](auto&&... of) { return gemm::on_gpu(call, of...); }, end_gpu);
}

TensorList end_reference(const OpCall& call, const Tensor& delta) {
  auto a = call.as<LinearLayerNormAttrs>();
  std::span<const Tensor> end = call.in.last(kEndInputs);
  AddedNorm y = add_layer_norm(end[kNormResidual], delta, end[kNormWeight], end[kNormShift], a.eps);
  return {y.sum, y.normed.to(a.out)};
}
TensorList linear_layer_norm_reference(const OpCall& call) {
  return end_reference(call, linear(call.in[0], call.in[1], call.in[2]));
}
TensorList feed_forward_layer_norm_reference(const OpCall& call) {
  auto a = call.as<LinearLayerNormAttrs>();
  Tensor preactivation = linear(call.in[0], call.in[1], call.in[2]);
  Tensor hidden = activate(preactivation, a.activation);
  TensorList out = end_reference(call, linear(hidden, call.in[3], call.in[4]));
  if (a.keeps) out.insert(out.end(), {hidden, preactivation});
  return out;
}

/// Writes the gradients of the residual and of the norm's parameters to `grads`.
/// @return the gradient of the layers' result, in its dtype; undefined if none arrived
Tensor end_vjp(const VjpCall& call, TensorList& grads) {
  const std::size_t end = call.in.size() - kEndInputs;
  const Tensor &sum = call.out[0], &grad = call.grad[1];
  DType t = call.in[0].dtype();
  if (!grad.defined()) {
    const Tensor& past = call.grad[0];
    grads[end + kNormResidual] = past;
    return past.defined() ? past.to(t) : past;
  }
  normalization::NormBackwardAttrs wanted{.eps = call.as<LinearLayerNormAttrs>().eps,
                                          .wants_weight = call.needs[end + kNormWeight],
                                          .wants_bias = call.needs[end + kNormShift]};
  wanted.wants_delta = t != sum.dtype();
  wanted.delta_dtype = t;
  if (wanted.wants_weight) wanted.weight_dtype = call.in[end + kNormWeight].dtype();
  if (wanted.wants_bias) wanted.bias_dtype = call.in[end + kNormShift].dtype();
  TensorList found = normalization::gradients(grad, sum, call.in[end + kNormWeight], call.grad[0], wanted);
  grads[end + kNormResidual] = found[0];
  if (wanted.wants_weight) grads[end + kNormWeight] = found[1];
  if (wanted.wants_bias) grads[end + kNormShift] = found[wanted.wants_weight ? 2 : 1];
  return wanted.wants_delta ? found.back() : found[0];
}

TensorList linear_layer_norm_vjp(const VjpCall& call) {
  TensorList grads(call.in.size());
  Tensor g = end_vjp(call, grads);
  if (!g.defined()) return grads;
  if (call.needs[0]) grads[0] = matmul(g, call.in[1]);
  if (call.needs[1]) grads[1] = gemm::weight_gradient(g, call.in[0]);
  if (call.needs[2]) grads[2] = gemm::bias_gradient(g);
  return grads;
}

TensorList feed_forward_layer_norm_vjp(const VjpCall& call) {
  TensorList grads(call.in.size());
  Tensor g = end_vjp(call, grads);
  TensorList of_layers = gemm::feed_forward_gradients(
      {call.in[0], call.in[1], call.in[3], call.out[2], call.out[3], call.as<LinearLayerNormAttrs>().activation}, g,
      call.grad[2], call.grad[3], call.needs);
  std::copy(of_layers.begin(), of_layers.end(), grads.begin());
  return grads;
}

/// Replaces the layers, the sum of their result and a residual stream, and the norm of that sum.
bool fuse(fusion::Calls calls, const LinearLayerNormAttrs& layers, fusion::Fused& fused) {
  const fusion::Call &first = calls[0], &add = calls[1], &norm = calls[2];
  const Tensor residual = fusion::added_to(calls, 1), sum = add.out[0];
  if (!residual.defined() || residual.shape() != first.out[0].shape() || residual.dtype() != sum.dtype() ||
      !normalization::reads_only_first(norm, sum) || !fusion::dead(calls, 0)) {
    return false;
  }
  auto of_norm = norm.attrs.as<normalization::NormAttrs>();
  fused.in = first.in;
  fused.in.insert(fused.in.end(), {residual, norm.in[1], norm.in[2]});
  fused.attrs = Attrs::of(LinearLayerNormAttrs{
      .eps = of_norm.eps, .out = of_norm.out, .activation = layers.activation, .keeps = layers.keeps});
  fused.out = {sum, norm.out[0]};
  fused.out.insert(fused.out.end(), first.out.begin() + 1, first.out.end());
  return true;
}
bool fuse_linear(fusion::Calls calls, fusion::Fused& fused) {
  return calls[0].attrs.as<gemm::LinearAttrs>().activation == Activation::none && fuse(calls, {}, fused);
}
bool fuse_feed_forward(fusion::Calls calls, fusion::Fused& fused) {
  auto a = calls[0].attrs.as<gemm::FeedForwardAttrs>();
  return fuse(calls, {.activation = a.activation, .keeps = a.keeps}, fused);
}
constexpr FusionPattern kEndOfLinear[] = {{"linear add layer_norm", fuse_linear}},
                        kEndOfFeedForward[] = {{"feed_forward add layer_norm", fuse_feed_forward}};

const OpDef kLinearLayerNorm = {.name = "linear_layer_norm",
                                .infer = linear_layer_norm_infer,
                                .cpu = linear_layer_norm_cpu,
                                .gpu = linear_layer_norm_gpu,
                                .reference = linear_layer_norm_reference,
                                .vjp = linear_layer_norm_vjp,
                                .saved = Saved::both,
                                .saved_inputs = 1u << 0 | 1u << 1 | 1u << (kLayer + kNormWeight),
                                .saved_outputs = 1u << 0,
                                .replaces = kEndOfLinear};
const OpDef kFeedForwardLayerNorm = {.name = "feed_forward_layer_norm",
                                     .infer = feed_forward_layer_norm_infer,
                                     .cpu = feed_forward_layer_norm_cpu,
                                     .gpu = feed_forward_layer_norm_gpu,
                                     .reference = feed_forward_layer_norm_reference,
                                     .vjp = feed_forward_layer_norm_vjp,
                                     .saved = Saved::both,
                                     .saved_inputs = 1u << 0 | 1u << 1 | 1u << 3 | 1u << (kLayers + kNormWeight),
                                     .saved_outputs = 1u << 0 | 1u << 2 | 1u << 3,
                                     .replaces = kEndOfFeedForward};

AddedNorm linear_layer_norm_run(const OpDef& op, TensorList layers, std::uint32_t biases, Tensor residual,
                                const Tensor& weight, const Tensor& bias, LinearLayerNormAttrs a) {
  detail::bring_to_one_dtype(layers, biases);
  if (is_floating(residual.dtype()) && is_floating(layers[0].dtype()))
    residual = residual.to(promote(residual.dtype(), layers[0].dtype()));
  a.out = normalization::out_dtype(residual);
  layers.insert(layers.end(), {residual, weight, bias});
  a.keeps = &op == &kFeedForwardLayerNorm && grad_recorder().wants(layers);
  TensorList out = apply(op, layers, Attrs::of(a));
  return {out[0], out[1]};
}

}  // namespace

AddedNorm linear_layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                            const Tensor& norm_weight, const Tensor& norm_bias, double eps) {
  return linear_layer_norm_run(kLinearLayerNorm, {x, weight, bias}, 1u << 2, residual, norm_weight, norm_bias,
                               {.eps = eps});
}
AddedNorm feed_forward_layer_norm(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
                                  const Tensor& down_bias, Activation activation, const Tensor& residual,
                                  const Tensor& norm_weight, const Tensor& norm_bias, double eps) {
  return linear_layer_norm_run(kFeedForwardLayerNorm, {x, up, up_bias, down, down_bias}, 1u << 2 | 1u << 4, residual,
                               norm_weight, norm_bias, {.eps = eps, .activation = activation});
}

std::span<const OpDef* const> ops_in_linear_layer_norm() {
  static const OpDef* const list[] = {&kLinearLayerNorm, &kFeedForwardLayerNorm};
  return list;
}

}  // namespace etna
