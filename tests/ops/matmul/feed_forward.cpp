#include <etna/tensor/ops.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_feed_forward() {
  auto sample = [](const char* name, Shape x, std::int64_t hidden, std::int64_t out, Activation activation) {
    std::int64_t in = x.back();
    return Sample("feed_forward", name)
        .in(x, -1, 1)
        .in({hidden, in}, -1, 1)
        .in({hidden}, -1, 1)
        .in({out, hidden}, -1, 1)
        .in({out}, -1, 1)
        .calls([activation](const TensorList& t) { return feed_forward(t[0], t[1], t[2], t[3], t[4], activation); });
  };
  // Equal sizes, and few dtypes where another sample has all of them: each new combination builds a dozen pipelines.
  return {
      sample("gelu_tanh", {3, 5}, 7, 4, Activation::gelu_tanh),
      sample("gelu", {2, 3, 5}, 7, 4, Activation::gelu).in_dtypes({f64, f32}),
      sample("silu", {3, 5}, 7, 4, Activation::silu).looser_halves(8),
      sample("no activation", {3, 5}, 7, 4, Activation::none).in_dtypes({f64, f32}),
      sample("one row", {5}, 7, 4, Activation::gelu_tanh).in_dtypes({f64, f32}),
      sample("no rows", {0, 5}, 7, 4, Activation::gelu_tanh),
      sample("nothing hidden", {2, 5}, 0, 2, Activation::gelu_tanh),
      sample("prime sizes", {5, 7, 37}, 71, 41, Activation::gelu_tanh).looser(2),
      Sample("feed_forward", "without biases")
          .in({3, 5}, -1, 1)
          .in({4, 5}, -1, 1)
          .in({6, 4}, -1, 1)
          .calls([](const TensorList& t) { return feed_forward(t[0], t[1], {}, t[2], {}, Activation::silu); })
          .in_dtypes({f64, f32}),
  };
}

}  // namespace etna::conformance
