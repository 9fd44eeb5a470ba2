#include <conformance/samples.h>
#include <etna/tensor/ops/sorting/sorting.h>

namespace etna::conformance {

std::vector<Sample> samples_in_sort() {
  auto list = [](const ValuesIndices& r) { return TensorList{r.values, r.indices}; };
  auto sorts = [=](std::int64_t dim, bool down) {
    return [=](const TensorList& in) { return list(sort(in[0], dim, down)); };
  };
  auto top = [=](std::int64_t k, std::int64_t dim, bool largest) {
    return [=](const TensorList& in) { return list(topk(in[0], k, dim, largest)); };
  };
  auto anything = [](const char* op, const char* name) {
    return std::move(Sample(op, name).and_integers().and_bool());
  };
  std::vector<Sample> all;
  // A composed function, on rows and on none.
  auto composed = [&](const char* op, bool whole, auto call) {
    for (bool empty : {false, true}) {
      Sample sample(op, empty ? "no rows" : "rows");
      sample.composed().in_dtypes({f64, f32}).in(empty ? Shape{0, 7} : Shape{4, 7});
      all.push_back(whole ? sample.whole().constant().calls(call) : sample.distinct().calls(call));
    }
  };
  const std::vector<DType> wide = {f64, f32};
  composed("kthvalue", false, [=](const TensorList& in) { return list(kthvalue(in[0], 3, 1)); });
  composed("median", false, [=](const TensorList& in) { return list(median(in[0], 1)); });
  composed("quantile", false, [](const TensorList& in) { return quantile(in[0], 0.3, 1); });
  composed("mode", true, [=](const TensorList& in) { return list(mode(in[0], 1)); });
  composed("max_with_indices", false, [=](const TensorList& in) { return list(max_with_indices(in[0], 1)); });
  const std::vector<Sample> ops = {
      anything("sort", "rows").in({5, 7}).distinct().covers({"put_rows", "linear_index"}).calls(sorts(1, false)),
      anything("sort", "columns, descending").in({7, 5}).distinct().calls(sorts(0, true)),
      anything("sort", "equal elements").in({3, 11}).whole().constant().calls(sorts(1, true)),
      anything("sort", "0-d").in({}).calls(sorts(0, false)),
      anything("sort", "nothing").in({3, 0}).calls(sorts(1, false)),
      Sample("sort", "prime").in({3, 521}).constant().in_dtypes(wide).calls(sorts(1, false)),
      anything("topk", "rows").in({5, 7}).distinct().calls(top(3, -1, true)),
      anything("topk", "columns, smallest").in({7, 5}).distinct().calls(top(2, 0, false)),
      anything("topk", "nothing").in({3, 0}).calls(top(0, 1, true)),
      Sample("topk", "of long rows").in({2, 523}).constant().in_dtypes(wide).calls(top(9, 1, true)),
  };
  all.insert(all.end(), ops.begin(), ops.end());
  return all;
}

}  // namespace etna::conformance
