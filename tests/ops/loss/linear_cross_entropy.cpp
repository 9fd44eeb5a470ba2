#include <conformance/samples.h>
#include <etna/tensor/ops.h>

namespace etna::conformance {
namespace {

/// The probabilities are rounded to 16 bits before they are summed over rows.
constexpr double kRounding = 4;

Sample linear_cross_entropy_sample(const char* name, Shape x, std::int64_t classes, double lowest, std::int64_t ignored,
                                   double smoothing, Reduction reduction) {
  return Sample("linear_cross_entropy", name)
      .in(x)
      .in({classes, x[1]})
      .index({x[0]}, lowest, static_cast<double>(classes))
      .calls([=](const TensorList& in) {
        return linear_cross_entropy(in[0], in[1], in[2], {}, ignored, smoothing, reduction);
      })
      .looser_halves(kRounding);
}

}  // namespace

std::vector<Sample> samples_in_linear_cross_entropy() {
  return {
      linear_cross_entropy_sample("mean", {5, 3}, 7, 0, -100, 0, Reduction::mean),
      linear_cross_entropy_sample("sum", {5, 3}, 7, 0, -100, 0, Reduction::sum),
      linear_cross_entropy_sample("ignored rows", {9, 4}, 6, -1, -1, 0, Reduction::mean),
      linear_cross_entropy_sample("smoothed", {5, 3}, 7, 0, -100, 0.1, Reduction::mean),
      linear_cross_entropy_sample("smoothed, ignored rows", {9, 4}, 6, -1, -1, 0.3, Reduction::sum),
      linear_cross_entropy_sample("chunks", {613, 3}, 11, 0, -100, 0, Reduction::mean),
      linear_cross_entropy_sample("prime sizes", {11, 17}, 521, 0, -100, 0.1, Reduction::mean),
      linear_cross_entropy_sample("no rows", {0, 5}, 3, 0, -100, 0, Reduction::sum),
      Sample("linear_cross_entropy", "bias, i32 targets")
          .in({70, 3})
          .in({13, 3})
          .in({13})
          .index({70}, 0, 13, i32)
          .calls([](const TensorList& in) { return linear_cross_entropy(in[0], in[1], in[3], in[2]); })
          .looser_halves(kRounding),
  };
}

}  // namespace etna::conformance
