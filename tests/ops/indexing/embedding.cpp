#include <conformance/samples.h>
#include <etna/tensor/ops.h>

namespace etna::conformance {

std::vector<Sample> samples_in_embedding() {
  auto rows = [](const TensorList& in) { return embedding(in[0], in[1]); };
  auto table = [](std::int64_t size) {
    return [=](const TensorList& in) { return embedding_backward(in[0], in[1], size); };
  };
  auto added = [](const char* name, Shape source, Shape index, std::int64_t size, DType t = i64) {
    Shape table = {size, source.back()};
    return Sample("index_add_", name)
        .in(table)
        .in(source)
        .index(index, 0, static_cast<double>(size), t)
        .gradients(Gradients::none)
        .calls([](const TensorList& in) {
          Tensor y = in[0].clone();
          index_add_(y, in[2], in[1]);
          return y;
        });
  };
  auto of_table = [](const char* name) { return Sample("embedding", name); };
  auto of_gradient = [](const char* name) { return Sample("embedding_backward", name); };
  return {
      of_table("a sentence").in({11, 5}).index({4}, 0, 11).calls(rows).and_integers().and_bool(),
      of_table("a batch").in({7, 4}).index({3, 5}, 0, 7, i32).calls(rows),
      of_table("one token").in({5, 3}).index({}, 0, 5).calls(rows),
      of_table("no tokens").in({5, 3}).index({0, 4}, 0, 5).calls(rows),
      of_table("no width").in({5, 0}).index({4}, 0, 5).calls(rows),
      of_table("prime").in({101, 67}).index({131}, 0, 101).calls(rows),
      // Runs that end inside a segment of 32, at its end, and after it.
      of_gradient("repeated rows").in({70, 3}).index({70}, 0, 2).calls(table(2)),
      of_gradient("a single row").in({97, 2}).index({97}, 0, 1).calls(table(3)),
      of_gradient("unused rows").in({2, 3, 5}).index({2, 3}, 1, 9, i32).calls(table(13)),
      of_gradient("one token").in({5}).index({}, 0, 4).calls(table(4)),
      of_gradient("no tokens").in({0, 5}).index({0}, 0, 4).calls(table(4)),
      of_gradient("prime").in({1031, 37}).index({1031}, 0, 53).calls(table(53)).gradients(Gradients::first),
      of_gradient("wide").in({37, 1031}).index({37}, 0, 5).calls(table(5)).gradients(Gradients::first),
      added("a sentence", {4, 5}, {4}, 11),
      added("a batch", {2, 3, 5}, {2, 3}, 13, i32),
      added("repeated rows", {70, 3}, {70}, 2),
      added("one token", {5}, {}, 4),
      added("no tokens", {0, 5}, {0}, 4),
      added("prime", {1031, 37}, {1031}, 53),
      added("wide", {37, 1031}, {37}, 5),
  };
}

}  // namespace etna::conformance
