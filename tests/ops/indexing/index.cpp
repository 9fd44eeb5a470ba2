#include <conformance/samples.h>
#include <etna/tensor/ops.h>

namespace etna::conformance {

std::vector<Sample> samples_in_index() {
  auto select = [](std::int64_t dim) { return [=](const TensorList& in) { return index_select(in[0], dim, in[1]); }; };
  auto pick = [](std::int64_t dim) { return [=](const TensorList& in) { return gather(in[0], dim, in[1]); }; };
  auto put = [](std::int64_t dim) {
    return [=](const TensorList& in) { return scatter_add(in[0], dim, in[1], in[2]); };
  };
  auto anything = [](const char* op, const char* name) {
    return std::move(Sample(op, name).and_integers().and_bool());
  };
  auto sums = [](const char* name) { return std::move(Sample("scatter_add", name).and_integers()); };
  return {
      anything("index_select", "rows").in({5, 3}).index({7}, 0, 5).calls(select(0)),
      anything("index_select", "columns").in({4, 6}).index({3}, 0, 6, i32).calls(select(-1)),
      anything("index_select", "the middle").in({2, 5, 3}).index({4}, 0, 5).calls(select(1)),
      anything("index_select", "one of a list").in({6}).index({}, 0, 6).calls(select(0)),
      anything("index_select", "of one number").in({}).index({2}, 0, 1).calls(select(0)),
      anything("index_select", "nothing").in({4, 3}).index({0}, 0, 3).calls(select(1)),
      anything("index_select", "nothing beside").in({4, 0}).index({3}, 0, 4).calls(select(0)),
      Sample("index_select", "prime").in({13, 37, 7}).index({41}, 0, 37).calls(select(1)),

      anything("gather", "rows").in({5, 3}).index({4, 3}, 0, 5).calls(pick(0)),
      anything("gather", "columns").in({4, 6}).index({4, 2}, 0, 6, i32).calls(pick(1)),
      anything("gather", "one a row").in({7, 5}).index({7, 1}, 0, 5).calls(pick(-1)),
      anything("gather", "of fewer lines").in({4, 5, 3}).index({2, 6, 1}, 0, 5).calls(pick(1)),
      anything("gather", "of one number").in({}).index({}, 0, 1).calls(pick(0)),
      anything("gather", "nothing").in({4, 3}).index({0, 3}, 0, 4).calls(pick(0)),
      anything("gather", "eight dimensions")
          .in({2, 1, 2, 1, 3, 1, 2, 1})
          .index({2, 1, 1, 1, 4, 1, 2, 1}, 0, 3)
          .calls(pick(4)),
      Sample("gather", "prime").in({67, 31}).index({67, 37}, 0, 31).calls(pick(1)),

      sums("rows").in({5, 3}).index({4, 3}, 0, 5).in({4, 3}).calls(put(0)),
      sums("equal indices").in({3, 2}).index({9, 2}, 0, 3, i32).in({9, 2}).calls(put(0)),
      sums("one a row").in({7, 5}).index({7, 1}, 0, 5).in({7, 1}).calls(put(1)),
      sums("into fewer lines, from a part").in({4, 5, 3}).index({2, 6, 1}, 0, 5).in({3, 6, 2}).calls(put(1)),
      sums("one number").in({}).index({}, 0, 1).in({}).calls(put(0)),
      sums("nothing").in({4, 3}).index({0, 3}, 0, 4).in({0, 3}).calls(put(0)),
      sums("into nothing").in({0, 3}).index({0, 2}, 0, 1).in({0, 2}).calls(put(1)),
      Sample("scatter_add", "prime").in({31, 37}).index({41, 37}, 0, 31).in({41, 37}).calls(put(0)),
  };
}

}  // namespace etna::conformance
