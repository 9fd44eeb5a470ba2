#include "case.h"

/// The token embedding, and its gradient: a table of zeros with rows added in a fixed order.
namespace bench {

using namespace etna;

Cases indexing_cases(const Workload& w) {
  const std::int64_t rows = w.rows(), vocab = w.model.vocabulary, dim = w.model.width;
  const auto taken = static_cast<double>(rows * dim), table = static_cast<double>(vocab * dim);
  auto tokens = [=](Device d) {
    manual_seed(2);
    return randint(0, vocab, {rows}, {i32}).to(d);
  };
  Cases cases;
  cases.push_back(
      {"embedding", 8 * taken, 0, [=](Device d) {
         return untaped([weight = normal({vocab, dim}, d), index = tokens(d)] { embedding(weight, index); });
       }});
  cases.push_back({"embedding_backward", 4 * (table + taken), 0, [=](Device d) {
                     Tensor weight = normal({vocab, dim}, d).requires_grad_();
                     return backward_of(embedding(weight, tokens(d)), {weight});
                   }});
  cases.push_back({"gather", 8 * static_cast<double>(rows), 0, [=](Device d) {
                     return untaped([x = normal({rows, w.model.feed_forward}, d), index = zeros({rows, 1}, {i64, d})] {
                       gather(x, 1, index);
                     });
                   }});
  return cases;
}

}  // namespace bench
