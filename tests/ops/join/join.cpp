#include <conformance/samples.h>
#include <etna/tensor/ops.h>

namespace etna::conformance {

std::vector<Sample> samples_in_join() {
  auto along = [](std::int64_t dim) { return [=](const TensorList& in) { return cat(in, dim); }; };
  auto of = [](const char* name) { return std::move(Sample("cat", name).and_integers().and_bool()); };
  return {
      of("rows").in({2, 3}).in({4, 3}).calls(along(0)),
      of("columns").in({5, 2}).in({5, 1}).in({5, 4}).calls(along(-1)),
      of("the middle").in({2, 3, 5}).in({2, 1, 5}).calls(along(1)),
      of("one part").in({3, 2}).calls(along(0)),
      of("an empty part").in({2, 3}).in({2, 0}).in({2, 1}).calls(along(1)),
      of("empty parts only").in({0, 3}).in({0, 3}).calls(along(0)),
      of("nothing beside").in({2, 0}).in({3, 0}).calls(along(0)),
      of("prime").in({7, 131}).in({7, 67}).calls(along(1)),
      of("a prime list").in({1031}).in({17}).calls(along(0)),
      of("more than one dispatch takes")
          .in({2, 1})
          .in({2, 2})
          .in({2, 3})
          .in({2, 1})
          .in({2, 2})
          .in({2, 3})
          .in({2, 1})
          .in({2, 5})
          .in({2, 1})
          .in({2, 2})
          .calls(along(1)),
      of("stacked numbers").in({}).in({}).calls([](const TensorList& in) { return stack(in, 0); }),
      of("stacked behind").in({2, 3}).in({2, 3}).in({2, 3}).calls([](const TensorList& in) { return stack(in, -1); }),
  };
}

}  // namespace etna::conformance
