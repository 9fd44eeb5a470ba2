#include <fmt/format.h>

#include "case.h"

/// Causal attention of one layer. A causal row looks at half the keys on average, so half the products count: forward two of
/// them, backward five (the scores once more, and four gradients).
namespace bench {

using namespace etna;

Cases attention_cases(const Workload& w) {
  const std::int64_t heads = w.model.heads, depth = w.model.dim / heads, seq = w.model.seq;
  const Shape shape{w.batch, heads, seq, depth};
  const double product = static_cast<double>(w.batch * heads * seq * seq * depth);
  const auto n = static_cast<double>(w.rows() * w.model.dim);
  Cases cases;
  for (DType t : {f32, bf16}) {
    const auto bytes = static_cast<double>(item_size(t)) * n;
    cases.push_back({fmt::format("attention/{}", name(t)), 4 * bytes, 2 * product, [=](Device d) {
                       return untaped([q = normal(shape, d, t), k = normal(shape, d, t), v = normal(shape, d, t)] {
                         scaled_dot_product_attention(q, k, v, {}, /*causal=*/true);
                       });
                     }});
    cases.push_back({fmt::format("attention_backward/{}", name(t)), 8 * bytes, 5 * product, [=](Device d) {
                       Tensor q = normal(shape, d, t).requires_grad_(), k = normal(shape, d, t).requires_grad_(),
                              v = normal(shape, d, t).requires_grad_();
                       return backward_of(scaled_dot_product_attention(q, k, v, {}, /*causal=*/true), {q, k, v});
                     }});
  }
  return cases;
}

}  // namespace bench
