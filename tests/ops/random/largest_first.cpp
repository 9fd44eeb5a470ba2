#include <conformance/samples.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>

namespace etna::conformance {

std::vector<Sample> samples_in_largest_first() {
  const auto three = [](const TensorList& in) { return detail::largest_first(in[0], 3); };
  const auto all = [](const TensorList& in) { return detail::largest_first(in[0], in[0].size(1)); };
  const auto sample = [](const char* name, Shape shape, auto call) {
    return Sample("largest_first", name).in(shape, -5, 5).whole().gradients(Gradients::none).calls(call);
  };
  return {
      sample("three of each row", {4, 7}, three).in_dtypes({f32}),
      sample("integers", {2, 5}, all).in_dtypes({i64}),
      sample("prime", {1, 1031}, all).in_dtypes({f32}),
      sample("no rows", {0, 4}, three).in_dtypes({f64, f32, i64}),
  };
}

}  // namespace etna::conformance
