#include <etna/tensor/ops/matmul/gemm/internal/linear_layer.h>

#include <string_view>

#include <fmt/format.h>

#include <etna/tensor/ops/matmul/gemm/internal/gradients.h>

namespace etna::gemm {

Activation activation_of(const OpDef& op) {
  std::string_view name = op.name;
  constexpr std::string_view backward = "_backward";
  if (name.ends_with(backward)) name.remove_suffix(backward.size());
  return activation_named(name).value_or(Activation::none);
}

void check_dtypes(const OpCall& call, std::uint32_t wider, std::uint32_t others) {
  DType t = call.in[0].dtype();
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const Tensor& x = call.in[i];
    if (!x.defined()) continue;
    if (!is_floating(x.dtype())) {
      throw DtypeError(fmt::format("{}: an input {} holds {}; all must be f64, f32, f16 or bf16; call .to(f32) first",
                                   call.op.name, str(x.shape()), name(x.dtype())));
    }
    bool may_differ = (others >> i & 1u) != 0 || ((wider >> i & 1u) != 0 && promote(x.dtype(), t) == x.dtype());
    if (x.dtype() != t && !may_differ) {
      throw DtypeError(fmt::format("{}: x holds {}, another input {}; bring all to one dtype", call.op.name, name(t),
                                   name(x.dtype())));
    }
  }
}

void check_linear_layer(const OpCall& call, const char* which, std::int64_t in, const Tensor& weight,
                        const Tensor& bias) {
  if (weight.dim() != 2 || weight.size(1) != in) {
    throw ShapeError(fmt::format("{}: the weight of the layer {} is {}, it must be [out, {}]", call.op.name, which,
                                 str(weight.shape()), in));
  }
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != weight.size(0))) {
    throw ShapeError(fmt::format("{}: the bias of the layer {} is {}, it must be [{}]", call.op.name, which,
                                 str(bias.shape()), weight.size(0)));
  }
}

TensorList feed_forward_gradients(const FeedForward& f, const Tensor& g, const Tensor& g_hidden,
                                  const Tensor& g_preactivation, const std::vector<bool>& needs) {
  enum Input { kX, kUp, kUpBias, kDown, kDownBias };
  TensorList grads(5);
  Tensor inner = g_preactivation;
  auto gather = [&inner](const Tensor& more) { inner = inner.defined() ? inner + more : more; };
  if (g_hidden.defined()) gather(activation_backward(g_hidden, f.preactivation, f.activation));
  if (g.defined()) {
    if (needs[kDown]) grads[kDown] = weight_gradient(g, f.hidden);
    if (needs[kDownBias]) grads[kDownBias] = bias_gradient(g);
    if (needs[kX] || needs[kUp] || needs[kUpBias]) {
      Tensor through = matmul_derivative(as_rows(g), f.down, as_rows(f.preactivation), f.activation);
      gather(through.reshape(f.preactivation.shape()));
    }
  }
  if (!inner.defined()) return grads;
  if (needs[kX]) grads[kX] = matmul(inner, f.up);
  if (needs[kUp]) grads[kUp] = weight_gradient(inner, f.x);
  if (needs[kUpBias]) grads[kUpBias] = bias_gradient(inner);
  return grads;
}

}  // namespace etna::gemm
