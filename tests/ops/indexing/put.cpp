#include <conformance/samples.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/indexing/internal/put.h>
#include <etna/tensor/ops/indexing/internal/select_true.h>

namespace etna::conformance {

std::vector<Sample> samples_in_put() {
  using indexing::PutMode;
  auto put = [](PutMode mode) {
    return [=](const TensorList& in) { return put_rows(in[0], in[1].to(i32), in[2], mode); };
  };
  auto in_place = [](const TensorList& in) {
    const Tensor y = in[0].clone();
    put_rows_(y, in[1].to(i32), in[2], PutMode::add);
    return y;
  };
  auto numbered = [](const TensorList& in) { return indexing::places_along("gather", {4, 5, 3}, 1, in[0]); };
  auto counted = [](const TensorList& in) {
    const indexing::TrueCounts counts = indexing::count_true(in[0]);
    return TensorList{counts.before, counts.total};
  };
  // Every third of n elements is true, so that the sum is known without a read on the host.
  auto thirds = [](std::int64_t n, Device device) { return eq(indexing::numbers(n, device) % 3, 0.0); };
  auto placed = [=](const TensorList& in) {
    const std::int64_t n = in[0].numel();
    const Tensor mask = thirds(n, in[0].device());
    return indexing::places_of_true(mask, indexing::count_true(mask), (n + 2) / 3);
  };
  auto selected = [=](const TensorList& in) {
    const std::int64_t n = in[0].numel();
    const Tensor mask = thirds(n, in[0].device());
    return indexing::elements_at_true(in[0], mask, indexing::count_true(mask), (n + 2) / 3);
  };
  auto coordinates = [](const TensorList& in) { return indexing::unravel(in[0].to(i32), {3, 4, 5}); };
  auto chosen = [](const TensorList& in) { return indexing::take_distinct(in[0], in[1].to(i32)); };
  auto anything = [](const char* op, const char* name) { return std::move(Sample(op, name).and_integers()); };
  const std::vector<DType> wide = {f64, f32};
  auto composed = [=](const char* op, const char* name) {
    return std::move(Sample(op, name).composed().in_dtypes(wide));
  };
  auto scatters = [](const TensorList& in) { return scatter(in[0], 1, in[1], in[2]); };
  auto reduces = [](const TensorList& in) { return scatter_reduce(in[0], 1, in[1], in[2], "mean", false); };
  auto puts = [](const TensorList& in) { return index_put(in[0], {in[1], 1}, in[2], true); };
  auto reads = [](const TensorList& in) { return index(in[0], {in[1], Slice(None, None, -1), in[2]}); };
  auto masked = [](const TensorList& in) { return masked_scatter(in[0], in[1], in[2]); };
  return {
      anything("put_rows", "replaces").and_bool().in({5, 3}).index({7}, 0, 5).in({7, 3}).calls(put(PutMode::replace)),
      anything("put_rows", "adds").in({5, 3}).index({7}, 0, 5).in({7, 3}).calls(put(PutMode::add)),
      anything("put_rows", "nothing").in({5, 3}).index({0}, 0, 5).in({0, 3}).calls(put(PutMode::add)),
      Sample("put_rows", "many at few places")
          .in({3, 1})
          .constant()
          .index({1301}, 0, 3)
          .in({1301, 1})
          .constant()
          .in_dtypes(wide)
          .calls(put(PutMode::add)),
      anything("reduce_rows", "products").in({4, 2}).index({6}, 0, 4).in({6, 2}).calls(put(PutMode::multiply)),
      anything("reduce_rows", "largest")
          .in({4, 2})
          .distinct()
          .index({6}, 0, 4)
          .in({6, 2})
          .distinct()
          .gradients(Gradients::compared)
          .calls(put(PutMode::largest)),
      anything("reduce_rows", "nothing").in({4, 2}).index({0}, 0, 4).in({0, 2}).calls(put(PutMode::smallest)),
      anything("put_rows_", "adds").in({5, 3}).constant().index({7}, 0, 5).in({7, 3}).constant().calls(in_place),
      anything("put_rows_", "nothing").in({5, 3}).constant().index({0}, 0, 5).in({0, 3}).constant().calls(in_place),
      anything("take_distinct", "rows").in({5, 3}).values({3}, {4, 0, 2}).as(i64).constant().dense().calls(chosen),
      anything("take_distinct", "nothing").in({5, 3}).index({0}, 0, 5).calls(chosen),
      Sample("linear_index", "of the middle").index({4, 7, 2}, 0, 5).in_dtypes(wide).calls(numbered),
      Sample("linear_index", "nothing").index({4, 0, 2}, 0, 5).in_dtypes(wide).calls(numbered),
      Sample("count_true", "a mask").mask({67}).in_dtypes(wide).calls(counted),
      Sample("count_true", "more than a tile").mask({4801}).in_dtypes(wide).calls(counted),
      Sample("count_true", "nothing").mask({0}).in_dtypes(wide).calls(counted),
      Sample("places_of_true", "more than a tile").in({4801}).constant().in_dtypes(wide).calls(placed),
      Sample("places_of_true", "nothing").in({0}).constant().in_dtypes(wide).calls(placed),
      anything("masked_select", "a third").and_bool().in({67}).calls(selected),
      Sample("masked_select", "more than a tile").in({4801}).constant().in_dtypes(wide).calls(selected),
      Sample("masked_select", "nothing").in({0}).in_dtypes(wide).calls(selected),
      Sample("unravel", "places").index({11}, 0, 60).in_dtypes(wide).calls(coordinates),
      Sample("unravel", "nothing").index({0}, 0, 60).in_dtypes(wide).calls(coordinates),
      composed("scatter", "rows").in({4, 5}).index({4, 3}, 0, 5).in({4, 3}).calls(scatters),
      composed("scatter", "nothing").in({0, 5}).index({0, 3}, 0, 5).in({0, 3}).constant().calls(scatters),
      composed("scatter_reduce", "rows").in({4, 5}).index({4, 7}, 0, 5).in({4, 7}).calls(reduces),
      composed("scatter_reduce", "nothing").in({4, 5}).index({4, 0}, 0, 5).in({4, 0}).constant().calls(reduces),
      composed("index_put", "rows").in({4, 3, 2}).index({5}, -4, 4).in({5, 2}).calls(puts),
      composed("index_put", "nothing").in({4, 3, 2}).index({0}, -4, 4).in({0, 2}).calls(puts),
      composed("index", "apart").in({4, 3, 5}).index({2, 1}, -4, 4).index({3}, 0, 5).calls(reads),
      composed("index", "nothing").in({4, 0, 5}).index({2, 1}, -4, 4).index({3}, 0, 5).calls(reads),
      composed("masked_scatter", "rows").in({3, 5}).mask({3, 5}).in({15}).calls(masked),
      composed("masked_scatter", "nothing").in({0, 5}).mask({0, 5}).in({0}).constant().calls(masked),
  };
}

}  // namespace etna::conformance
