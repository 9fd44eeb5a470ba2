#include <fmt/format.h>

#include <etna/tensor/autocast.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/product/gradients.h>
#include <etna/tensor/product/product.h>

// The two linear layers of a feed-forward block as one op: the activation runs where the first product ends, and its derivative
// where the gradient's product with the second weight ends, so neither is a pass over memory of its own.
namespace etna {
namespace {

struct Attributes {
  Activation activation = Activation::none;
  bool keeps = false;  ///< two more outputs, for the gradient: the hidden values and what the activation was taken of
};

enum Input { kX, kUp, kUpBias, kDown, kDownBias };

void check_layer(const char* what, std::int64_t in, const Tensor& weight, const Tensor& bias) {
  if (weight.dim() != 2 || weight.size(1) != in) {
    throw ShapeError(fmt::format("feed_forward: the weight of the layer {} is {}, it must be [out, {}]", what,
                                 str(weight.shape()), in));
  }
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != weight.size(0))) {
    throw ShapeError(fmt::format("feed_forward: the bias of the layer {} is {}, it must be [{}]", what,
                                 str(bias.shape()), weight.size(0)));
  }
}

std::vector<OutputSpec> infer(const OpCall& call) {
  const Tensor &x = call.in[kX], &up = call.in[kUp], &down = call.in[kDown];
  for (const Tensor& t : call.in) {
    if (!t.defined()) continue;
    if (!is_floating(t.dtype())) {
      throw DtypeError(
          fmt::format("feed_forward: an input {} holds {}, all are f64, f32, f16 or bf16; call .to(f32) first",
                      str(t.shape()), name(t.dtype())));
    }
    bool may_be_wider =
        (&t == &call.in[kUpBias] || &t == &call.in[kDownBias]) && promote(t.dtype(), x.dtype()) == t.dtype();
    if (t.dtype() != x.dtype() && !may_be_wider) {
      throw DtypeError(fmt::format("feed_forward: x holds {}, another input {}; bring all to one dtype",
                                   name(x.dtype()), name(t.dtype())));
    }
  }
  if (x.dim() == 0) throw ShapeError("feed_forward: x has no dimensions; it must be [..., in]");
  check_layer("up", x.size(-1), up, call.in[kUpBias]);
  check_layer("down", up.size(0), down, call.in[kDownBias]);
  Shape hidden = x.shape(), out = x.shape();
  hidden.back() = up.size(0), out.back() = down.size(0);
  if (!call.as<Attributes>().keeps) return {{out, x.dtype()}};
  return {{out, x.dtype()}, {hidden, x.dtype()}, {hidden, x.dtype()}};
}

/// @param product (a, b, epilogue, y), which says whether it has a kernel
bool compute(const OpCall& call, std::span<Tensor> out, const auto& product) {
  const Tensor x = product::as_rows(call.in[kX]);
  product::Epilogue first{.bias = call.in[kUpBias], .activation = call.as<Attributes>().activation};
  Tensor hidden;
  if (out.size() > 1) {
    hidden = product::as_rows(out[1]);
    first.pre = product::as_rows(out[2]);
  } else {
    Shape shape = x.shape();
    shape.back() = call.in[kUp].size(0);
    hidden = empty(shape, {x.dtype(), x.device()});
  }
  Tensor y = product::as_rows(out[0]);
  return product(x, call.in[kUp].t(), first, hidden) &&
         product(hidden, call.in[kDown].t(), product::Epilogue{.bias = call.in[kDownBias]}, y);
}

void cpu(const OpCall& call, std::span<Tensor> out) {
  compute(call, out, [](auto&&... of) { return product::cpu(of...), true; });
}
bool vulkan(const OpCall& call, std::span<Tensor> out) {
  return compute(call, out, [&](auto&&... of) { return product::vulkan(call, of...); });
}

TensorList reference(const OpCall& call) {
  auto a = call.as<Attributes>();
  Tensor before = linear(call.in[kX], call.in[kUp], call.in[kUpBias]);
  Tensor hidden = product::activate(before, a.activation);
  Tensor y = linear(hidden, call.in[kDown], call.in[kDownBias]);
  return a.keeps ? TensorList{y, hidden, before} : TensorList{y};
}

TensorList vjp(const VjpCall& call) {
  auto activation = call.as<Attributes>().activation;
  const Tensor &hidden = call.out[1], &before = call.out[2], &g = call.grad[0];
  TensorList grads(5);
  // Where this gradient is differentiated in turn, gradients arrive for the two other outputs, too.
  Tensor inner = call.grad[2];
  auto gather = [&inner](const Tensor& more) { inner = inner.defined() ? inner + more : more; };
  if (call.grad[1].defined()) gather(product::activation_backward(call.grad[1], before, activation));
  if (g.defined()) {
    if (call.needs[kDown]) grads[kDown] = product::weight_gradient(g, hidden);
    if (call.needs[kDownBias]) grads[kDownBias] = product::bias_gradient(g);
    if (call.needs[kX] || call.needs[kUp] || call.needs[kUpBias]) {
      Tensor through = matmul_slope(product::as_rows(g), call.in[kDown], product::as_rows(before), activation);
      gather(through.reshape(before.shape()));
    }
  }
  if (!inner.defined()) return grads;
  if (call.needs[kX]) grads[kX] = matmul(inner, call.in[kUp]);
  if (call.needs[kUp]) grads[kUp] = product::weight_gradient(inner, call.in[kX]);
  if (call.needs[kUpBias]) grads[kUpBias] = product::bias_gradient(inner);
  return grads;
}

const OpDef kFeedForward = {.name = "feed_forward",
                            .infer = infer,
                            .cpu = cpu,
                            .vulkan = vulkan,
                            .reference = reference,
                            .vjp = vjp,
                            .saved = Saved::both,
                            .saved_inputs = 1u << kX | 1u << kUp | 1u << kDown,
                            .saved_outputs = 1u << 1 | 1u << 2};

}  // namespace

Tensor feed_forward(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
                    const Tensor& down_bias, Activation activation) {
  TensorList in = {x, up, up_bias, down, down_bias};
  detail::bring_to_one_dtype(in, 1u << kUpBias | 1u << kDownBias);
  return apply(kFeedForward, in, Attrs::of(Attributes{activation, grad_recorder().wants(in)}))[0];
}

std::span<const OpDef* const> ops_in_feed_forward() {
  static const OpDef* const list[] = {&kFeedForward};
  return list;
}

}  // namespace etna
