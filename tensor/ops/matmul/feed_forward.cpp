#include <etna/tensor/autocast.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/matmul/gemm/internal/gradients.h>
#include <etna/tensor/ops/matmul/gemm/internal/linear_layer.h>

// The two linear layers of a feed-forward block as one op. The activation runs in the epilogue of the first gemm. Its
// derivative runs in the epilogue of the gemm of the gradient with the second weight. Neither needs its own pass over
// memory.
namespace etna {
namespace {

using FeedForwardAttrs = gemm::FeedForwardAttrs;

enum FeedForwardInput { kFeedForwardX, kFeedForwardUp, kFeedForwardUpBias, kFeedForwardDown, kFeedForwardDownBias };

std::vector<OutputSpec> feed_forward_infer(const OpCall& call) {
  const Tensor &x = call.in[kFeedForwardX], &up = call.in[kFeedForwardUp], &down = call.in[kFeedForwardDown];
  gemm::check_dtypes(call, 1u << kFeedForwardUpBias | 1u << kFeedForwardDownBias);
  if (x.dim() == 0) throw ShapeError("feed_forward: x has no dimensions; it must be [..., in]");
  gemm::check_linear_layer(call, "up", x.size(-1), up, call.in[kFeedForwardUpBias]);
  gemm::check_linear_layer(call, "down", up.size(0), down, call.in[kFeedForwardDownBias]);
  Shape hidden = x.shape(), out = x.shape();
  hidden.back() = up.size(0), out.back() = down.size(0);
  if (!call.as<FeedForwardAttrs>().keeps) return {{out, x.dtype()}};
  return {{out, x.dtype()}, {hidden, x.dtype()}, {hidden, x.dtype()}};
}

/// @param gemm called with (a, b, epilogue, y); returns true if it has a kernel
bool feed_forward_compute(const OpCall& call, std::span<Tensor> out, const auto& gemm) {
  const Tensor x = gemm::as_rows(call.in[kFeedForwardX]);
  gemm::Epilogue first{.bias = call.in[kFeedForwardUpBias], .activation = call.as<FeedForwardAttrs>().activation};
  Tensor hidden;
  if (out.size() > 1) {
    hidden = gemm::as_rows(out[1]);
    first.preactivation = gemm::as_rows(out[2]);
  } else {
    Shape shape = x.shape();
    shape.back() = call.in[kFeedForwardUp].size(0);
    hidden = empty(shape, {x.dtype(), x.device()});
  }
  Tensor y = gemm::as_rows(out[0]);
  return gemm(x, call.in[kFeedForwardUp].t(), first, hidden) &&
         gemm(hidden, call.in[kFeedForwardDown].t(), gemm::Epilogue{.bias = call.in[kFeedForwardDownBias]}, y);
}

void feed_forward_cpu(const OpCall& call, std::span<Tensor> out) {
  feed_forward_compute(call, out, [](auto&&... of) { return gemm::cpu(of...), true; });
}
bool feed_forward_gpu(const OpCall& call, std::span<Tensor> out) {
  return feed_forward_compute(call, out, [&](auto&&... of) { return gemm::on_gpu(call, of...); });
}

TensorList feed_forward_reference(const OpCall& call) {
  auto a = call.as<FeedForwardAttrs>();
  Tensor preactivation = linear(call.in[kFeedForwardX], call.in[kFeedForwardUp], call.in[kFeedForwardUpBias]);
  Tensor hidden = activate(preactivation, a.activation);
  Tensor y = linear(hidden, call.in[kFeedForwardDown], call.in[kFeedForwardDownBias]);
  return a.keeps ? TensorList{y, hidden, preactivation} : TensorList{y};
}

TensorList feed_forward_vjp(const VjpCall& call) {
  auto activation = call.as<FeedForwardAttrs>().activation;
  return gemm::feed_forward_gradients({call.in[kFeedForwardX], call.in[kFeedForwardUp], call.in[kFeedForwardDown],
                                       call.out[1], call.out[2], activation},
                                      call.grad[0], call.grad[1], call.grad[2], call.needs);
}

const OpDef kFeedForward = {.name = "feed_forward",
                            .infer = feed_forward_infer,
                            .cpu = feed_forward_cpu,
                            .gpu = feed_forward_gpu,
                            .reference = feed_forward_reference,
                            .vjp = feed_forward_vjp,
                            .saved = Saved::both,
                            .saved_inputs = 1u << kFeedForwardX | 1u << kFeedForwardUp | 1u << kFeedForwardDown,
                            .saved_outputs = 1u << 1 | 1u << 2};

}  // namespace

Tensor feed_forward(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
                    const Tensor& down_bias, Activation activation) {
  TensorList in = {x, up, up_bias, down, down_bias};
  detail::bring_to_one_dtype(in, 1u << kFeedForwardUpBias | 1u << kFeedForwardDownBias);
  return apply(kFeedForward, in, Attrs::of(FeedForwardAttrs{activation, grad_recorder().wants(in)}))[0];
}

std::span<const OpDef* const> ops_in_feed_forward() {
  static const OpDef* const list[] = {&kFeedForward};
  return list;
}

}  // namespace etna
