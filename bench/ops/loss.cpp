#include "case.h"

/// Cross-entropy over the vocabulary. Bytes count the logits read once, and once read and once written in backward.
namespace bench {

using namespace etna;

Cases loss_cases(const Workload& w) {
  const std::int64_t rows = w.rows(), vocab = w.model.vocab;
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
  return cases;
}

}  // namespace bench
