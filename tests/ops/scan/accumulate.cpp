#include <conformance/samples.h>
#include <etna/tensor/ops/scan/internal/accumulate.h>
#include <etna/tensor/ops/scan/scan.h>
#include <etna/tensor/ops/sorting/sorting.h>

namespace etna::conformance {

std::vector<Sample> samples_in_accumulate() {
  auto list = [](const ValuesIndices& r) { return TensorList{r.values, r.indices}; };
  auto largest = [=](const TensorList& in) { return list(cummax(in[0], -1)); };
  auto smallest = [=](const TensorList& in) { return list(cummin(in[0], 0)); };
  auto product = [](const TensorList& in) { return cumprod(in[0], -1); };
  auto logs = [](const TensorList& in) { return logcumsumexp(in[0], -1); };
  auto recurrence = [](bool reverse) {
    return [=](const TensorList& in) { return scan::linear_recurrence(in[0], in[1], reverse); };
  };
  auto anything = [](const char* op, const char* name) { return std::move(Sample(op, name).and_integers()); };
  const std::vector<DType> wide = {f64, f32};
  return {
      anything("cummax", "rows").and_bool().in({4, 7}).distinct().calls(largest),
      anything("cummax", "0-d").in({}).calls(largest),
      anything("cummax", "nothing").in({3, 0}).calls(largest),
      anything("cummin", "columns").in({7, 4}).distinct().calls(smallest),
      anything("cummin", "nothing").in({3, 0}).calls(smallest),
      anything("cumprod", "rows").and_bool().in({3, 7}, -1.5, 1.5).calls(product),
      Sample("cumprod", "zeros").values({2, 4}, {2, 0, 3, 0, 0, 1, -2, 3}).in_dtypes(wide).calls(product),
      Sample("cumprod", "more than a chunk")
          .in({4099}, 0.99, 1.01)
          .constant()
          .in_dtypes(wide)
          .looser(50)
          .calls(product),
      anything("cumprod", "nothing").in({3, 0}).calls(product),
      Sample("logcumsumexp", "rows").in({3, 7}).calls(logs),
      Sample("logcumsumexp", "nothing").in({3, 0}).calls(logs),
      Sample("linear_recurrence", "rows").in({3, 7}, -1, 1).in({3, 7}).calls(recurrence(false)),
      Sample("linear_recurrence", "reversed").in({2, 5}, -1, 1).in({2, 5}).in_dtypes(wide).calls(recurrence(true)),
      Sample("linear_recurrence", "nothing").in({3, 0}).in({3, 0}).calls(recurrence(false)),
  };
}

}  // namespace etna::conformance
