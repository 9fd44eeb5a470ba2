#include <fmt/format.h>

#include "case.h"

/// Cross-entropy over the vocabulary. Bytes count the logits read once, and once read and once written in backward.
namespace bench {

using namespace etna;

Cases loss_cases(const Workload& w) {
  const std::int64_t rows = w.rows(), vocab = w.model.vocabulary;
  const auto n = static_cast<double>(rows * vocab);
  auto targets = [=](Device d) {
    manual_seed(3);
    return randint(0, vocab, {rows}, {i32}).to(d);
  };
  Cases cases;
  cases.push_back({"cross_entropy", 4 * n, 0, [=](Device d) {
                     return untaped([x = normal({rows, vocab}, d), target = targets(d)] { cross_entropy(x, target); });
                   }});
  cases.push_back({"cross_entropy_backward", 8 * n, 0, [=](Device d) {
                     Tensor x = normal({rows, vocab}, d).requires_grad_();
                     return backward_of(cross_entropy(x, targets(d)), {x});
                   }});
  // The head's gemm and the loss as one op: forward including gradients runs three gemms.
  for (DType t : {f32, bf16}) {
    const double product = 2 * n * static_cast<double>(w.model.width);
    const auto bytes = static_cast<double>(item_size(t)) * static_cast<double>((rows + vocab) * w.model.width);
    cases.push_back({fmt::format("linear_cross_entropy/{}", name(t)), bytes, product, [=](Device d) {
                       Tensor x = normal({rows, w.model.width}, d, t), weight = normal({vocab, w.model.width}, d, t);
                       return untaped([=, target = targets(d)] { linear_cross_entropy(x, weight, target); });
                     }});
    cases.push_back(
        {fmt::format("linear_cross_entropy_with_gradients/{}", name(t)), 3 * bytes, 3 * product, [=](Device d) {
           Tensor x = normal({rows, w.model.width}, d, t).requires_grad_(),
                  weight = normal({vocab, w.model.width}, d, t).requires_grad_();
           return [=, target = targets(d)] { linear_cross_entropy(x, weight, target); };
         }});
  }
  return cases;
}

}  // namespace bench
