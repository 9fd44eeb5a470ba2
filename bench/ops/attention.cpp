#include <fmt/format.h>

#include "case.h"

/// Causal attention of one layer. A causal row attends to half the keys on average, so half the work of each gemm
/// counts: two gemms forward, five backward (the scores again, and four gradients).
namespace bench {

using namespace etna;

namespace {

void add(Cases& cases, const std::string& name, DType t, Shape shape) {
  const double product = static_cast<double>(numel(shape) * shape[2]);  // 2 T² D per head, halved
  const auto bytes = static_cast<double>(item_size(t)) * static_cast<double>(numel(shape));
  cases.push_back({fmt::format("attention{}/{}", name, etna::name(t)), 4 * bytes, 2 * product, [=](Device d) {
                     return untaped([q = normal(shape, d, t), k = normal(shape, d, t), v = normal(shape, d, t)] {
                       scaled_dot_product_attention(q, k, v, {}, /*causal=*/true);
                     });
                   }});
  cases.push_back({fmt::format("attention_backward{}/{}", name, etna::name(t)), 8 * bytes, 5 * product, [=](Device d) {
                     Tensor q = normal(shape, d, t).requires_grad_(), k = normal(shape, d, t).requires_grad_(),
                            v = normal(shape, d, t).requires_grad_();
                     return backward_of(scaled_dot_product_attention(q, k, v, {}, /*causal=*/true), {q, k, v});
                   }});
}

}  // namespace

Cases attention_cases(const Workload& w) {
  Cases cases;
  for (DType t : {f32, bf16})
    add(cases, "", t, {w.batch, w.model.heads, w.model.context, w.model.width / w.model.heads});
  if (w.model.context < 1024) return cases;
  // Speed as a function of length, for 16384 rows of 2048 columns.
  for (std::int64_t size : {64, 128}) {
    for (std::int64_t length : {1024, 4096, 8192})
      add(cases, fmt::format("_{}x{}", length, size), bf16, {16384 / length, 2048 / size, length, size});
  }
  return cases;
}

}  // namespace bench
