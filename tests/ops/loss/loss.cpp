#include <etna/tensor/ops.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_loss() {
  auto sample = [](const char* name, Shape logits, double lowest, std::int64_t ignored, double smoothing,
                   Reduction reduction) {
    auto call = [=](const TensorList& in) { return cross_entropy(in[0], in[1], ignored, smoothing, reduction); };
    return Sample("cross_entropy", name)
        .in(logits, -4, 4)
        .index({logits[0]}, lowest, static_cast<double>(logits[1]))
        .calls(call)
        .covers({"cross_entropy_backward"});
  };
  auto narrow = [](const TensorList& in) { return cross_entropy(in[0], in[1]); };
  return {
      sample("mean", {5, 7}, 0, -100, 0, Reduction::mean),
      sample("sum", {5, 7}, 0, -100, 0, Reduction::sum),
      sample("none", {5, 7}, 0, -100, 0, Reduction::none),
      sample("ignored rows", {9, 4}, -1, -1, 0, Reduction::mean),
      sample("ignored class", {9, 4}, 0, 2, 0, Reduction::none),
      sample("smoothed", {5, 7}, 0, -100, 0.1, Reduction::mean),
      sample("smoothed, ignored rows", {9, 4}, -1, -1, 0.3, Reduction::sum),
      sample("prime sizes", {11, 521}, 0, -100, 0.1, Reduction::mean),
      sample("no rows", {0, 5}, 0, -100, 0, Reduction::sum),
      Sample("cross_entropy", "i32 targets")
          .in({5, 7}, -4, 4)
          .index({5}, 0, 7, i32)
          .calls(narrow)
          .covers({"cross_entropy_backward"}),
  };
}

}  // namespace etna::conformance
