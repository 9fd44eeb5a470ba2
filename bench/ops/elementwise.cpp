#include <fmt/format.h>

#include "case.h"

/// Elementwise ops on the hidden layer of the feed-forward block: [rows, ffn].
namespace bench {

using namespace etna;

Cases elementwise_cases(const Workload& w) {
  const Shape shape{w.rows(), w.model.feed_forward};
  const auto n = static_cast<double>(w.rows() * w.model.feed_forward);
  const std::int64_t width = w.model.feed_forward;
  Cases cases;
  // Like a user-defined activation. The bytes are those of the one kernel into which a captured step fuses it; with
  // ETNA_FUSE=0 it is four ops.
  cases.push_back({"fused_chain", 12 * n, 0, [=](Device d) {
                     return untaped([x = normal(shape, d), b = normal(shape, d)] { add(x * sigmoid(x * 1.702), b); });
                   }});
  cases.push_back(
      {"fused_chain_row/bf16", 4 * n, 0, [=](Device d) {
         return untaped([x = normal(shape, d, bf16), b = normal({width}, d, bf16)] { add(x * sigmoid(x * 1.702), b); });
       }});
  cases.push_back({"fused_chain_sum", 4 * n, 0,
                   [=](Device d) { return untaped([x = normal(shape, d)] { sum(square(x - 0.5), {1}); }); }});
  for (Case& c : cases) c.captured = true;
  cases.push_back({"add", 12 * n, 0,
                   [=](Device d) { return untaped([a = normal(shape, d), b = normal(shape, d)] { add(a, b); }); }});
  cases.push_back({"add_row", 8 * n, 0,
                   [=](Device d) { return untaped([a = normal(shape, d), b = normal({width}, d)] { add(a, b); }); }});
  cases.push_back({"add_transposed", 12 * n, 0, [=](Device d) {
                     return untaped([a = normal(shape, d), b = normal({shape[1], shape[0]}, d).t()] { add(a, b); });
                   }});
  cases.push_back({"exp", 8 * n, 0, [=](Device d) { return untaped([x = normal(shape, d)] { exp(x); }); }});
  cases.push_back({"gelu_tanh", 8 * n, 0, [=](Device d) { return untaped([x = normal(shape, d)] { gelu_tanh(x); }); }});
  cases.push_back({"gelu_tanh_backward", 12 * n, 0, [=](Device d) {
                     Tensor x = normal(shape, d).requires_grad_();
                     return backward_of(gelu_tanh(x), {x});
                   }});
  for (DType to : {f16, bf16}) {
    cases.push_back({fmt::format("cast_f32_{}", name(to)), 6 * n, 0,
                     [=](Device d) { return untaped([=, x = normal(shape, d)] { cast(x, to); }); }});
  }
  cases.push_back(
      {"copy_transposed", 8 * n, 0, [=](Device d) { return untaped([x = normal(shape, d).t()] { copy(x); }); }});
  cases.push_back(
      {"dropout", 8 * n, 0, [=](Device d) { return untaped([x = normal(shape, d)] { dropout(x, 0.1); }); }});
  return cases;
}

}  // namespace bench
