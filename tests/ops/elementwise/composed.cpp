#include <conformance/samples.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/linalg/linalg.h>

// Samples of functions that are composed of other ops. Their values are compared with PyTorch in
// tests/torch/composed_test.cpp and tests/torch/special_test.cpp.
namespace etna::conformance {
namespace {

using In = const TensorList&;

/// @param lo, hi the range of all inputs
template <typename F>
Sample& ops_composed_add(std::vector<Sample>& all, const char* op, const char* name, std::vector<Shape> shapes, F f,
                         double lo = -2, double hi = 2) {
  Sample sample(op, name);
  for (const Shape& shape : shapes) sample.in(shape, lo, hi).distinct();
  all.push_back(sample.composed().calls(f).in_dtypes({f64, f32}));
  return all.back();
}

}  // namespace

std::vector<Sample> samples_in_composed() {
  std::vector<Sample> all;
  const auto trigamma = [](In in) { return polygamma(1, in[0]); };
  ops_composed_add(all, "polygamma", "first", {{7}}, trigamma, 0.5, 5).in_dtypes(kFloats).looser_halves(2);
  ops_composed_add(all, "polygamma", "nothing", {{0}}, trigamma);
  ops_composed_add(
      all, "mvlgamma", "three", {{7}}, [](In in) { return mvlgamma(in[0], 3); }, 1.5, 5);
  ops_composed_add(all, "ldexp", "two", {{3, 5}, {5}}, [](In in) { return ldexp(in[0], in[1]); });
  ops_composed_add(
      all, "frexp", "mantissa and exponent", {{7}},
      [](In in) {
        const Frexp f = frexp(in[0]);
        return TensorList{f.mantissa, f.exponent};
      },
      0.55, 0.95)
      .gradients(Gradients::compared);
  ops_composed_add(all, "diff", "rows", {{3, 5}}, [](In in) { return diff(in[0], 2); }).and_integers();
  ops_composed_add(all, "diff", "one element", {{3, 1}}, [](In in) { return diff(in[0]); });
  ops_composed_add(all, "gradient", "matrix", {{3, 4}}, [](In in) { return gradient(in[0], 0.5, {}, 2); });
  ops_composed_add(all, "trapezoid", "rows", {{3, 5}, {5}}, [](In in) { return trapezoid(in[0], in[1]); });
  ops_composed_add(all, "trapezoid", "one element", {{3, 1}}, [](In in) { return trapezoid(in[0]); });
  ops_composed_add(all, "cumulative_trapezoid", "rows", {{3, 5}, {5}},
                   [](In in) { return cumulative_trapezoid(in[0], in[1]); });
  ops_composed_add(all, "cov", "matrix", {{3, 5}}, [](In in) { return cov(in[0]); });
  ops_composed_add(all, "corrcoef", "matrix", {{3, 5}}, [](In in) {
    return corrcoef(in[0]);
  }).gradients(Gradients::compared);
  ops_composed_add(
      all, "dist", "broadcast", {{3, 5}, {5}}, [](In in) { return dist(in[0], in[1], 3); }, 0.5, 2)
      .gradients(Gradients::compared);
  ops_composed_add(all, "renorm", "slices", {{3, 5}}, [](In in) { return renorm(in[0], 2, 0, 1.5); });
  ops_composed_add(all, "block_diag", "three", {{2, 3}, {2}, {}}, [](In in) {
    return block_diag({in[0], in[1], in[2]});
  }).and_integers();
  ops_composed_add(all, "diagflat", "matrix", {{2, 2}}, [](In in) { return diagflat(in[0], 1); });
  ops_composed_add(all, "combinations", "of three", {{5}}, [](In in) { return combinations(in[0], 3); });
  ops_composed_add(all, "combinations", "none", {{2}}, [](In in) { return combinations(in[0], 3); });
  ops_composed_add(all, "tensor_split", "columns", {{2, 7}}, [](In in) { return tensor_split(in[0], 3, 1); });
  for (const char* reduce : {"prod", "mean", "amax"}) {
    Sample sample("index_reduce", reduce);
    sample.composed().in({2, 4}, 0.5, 2).distinct().in({2, 3}, 0.5, 2).distinct().index({3}, 0, 4);
    all.push_back(
        sample.in_dtypes({f64, f32}).calls([reduce](In in) { return index_reduce(in[0], 1, in[2], in[1], reduce); }));
  }
  const auto householder = [](In in) { return linalg::householder_product(in[0], in[1]); };
  ops_composed_add(all, "householder_product", "batch", {{2, 3, 2}, {2, 2}}, householder, -1, 1)
      .in_dtypes({f32})
      .gradients(Gradients::compared);
  const auto sampled = [](GridSampleMode mode) {
    return [mode](In in) { return grid_sample(in[0], in[1], mode, GridPadding::border); };
  };
  ops_composed_add(all, "grid_sample", "volume", {{1, 1, 2, 3, 2}, {1, 1, 1, 3, 3}}, sampled(GridSampleMode::bilinear),
                   -0.9, 0.9)
      .in_dtypes({f32})
      .gradients(Gradients::compared);
  ops_composed_add(all, "mvlgamma", "nothing", {{0}}, [](In in) {
    return mvlgamma(in[0], 3);
  }).gradients(Gradients::compared);
  ops_composed_add(all, "ldexp", "nothing", {{0, 5}, {5}}, [](In in) {
    return ldexp(in[0], in[1]);
  }).gradients(Gradients::compared);
  ops_composed_add(all, "frexp", "nothing", {{0}}, [](In in) {
    return frexp(in[0]).mantissa;
  }).gradients(Gradients::compared);
  ops_composed_add(all, "diff", "nothing", {{3, 0}}, [](In in) { return diff(in[0]); }).gradients(Gradients::compared);
  ops_composed_add(all, "gradient", "nothing", {{0, 4}}, [](In in) {
    return gradient(in[0], 0.5, 1);
  }).gradients(Gradients::compared);
  ops_composed_add(all, "trapezoid", "nothing", {{3, 0}}, [](In in) {
    return trapezoid(in[0]);
  }).gradients(Gradients::compared);
  ops_composed_add(all, "cumulative_trapezoid", "nothing", {{3, 0}}, [](In in) {
    return cumulative_trapezoid(in[0]);
  }).gradients(Gradients::compared);
  ops_composed_add(all, "cov", "nothing", {{0, 5}}, [](In in) { return cov(in[0]); }).gradients(Gradients::compared);
  ops_composed_add(all, "corrcoef", "nothing", {{0, 5}}, [](In in) {
    return corrcoef(in[0]);
  }).gradients(Gradients::compared);
  ops_composed_add(all, "dist", "nothing", {{0, 5}, {5}}, [](In in) {
    return dist(in[0], in[1]);
  }).gradients(Gradients::compared);
  ops_composed_add(all, "renorm", "nothing", {{0, 5}}, [](In in) {
    return renorm(in[0], 2, 1, 1.5);
  }).gradients(Gradients::compared);
  ops_composed_add(all, "block_diag", "nothing", {{0, 3}, {2}}, [](In in) {
    return block_diag({in[0], in[1]});
  }).gradients(Gradients::compared);
  ops_composed_add(all, "diagflat", "nothing", {{0}}, [](In in) {
    return diagflat(in[0], 1);
  }).gradients(Gradients::compared);
  ops_composed_add(all, "combinations", "nothing", {{0}}, [](In in) {
    return combinations(in[0]);
  }).gradients(Gradients::compared);
  ops_composed_add(all, "tensor_split", "nothing", {{0, 7}}, [](In in) {
    return tensor_split(in[0], 3, 1);
  }).gradients(Gradients::compared);
  ops_composed_add(all, "householder_product", "nothing", {{2, 4, 0}, {2, 0}}, householder).gradients(Gradients::none);
  ops_composed_add(all, "grid_sample", "nothing", {{1, 2, 3, 2, 2}, {1, 0, 2, 2, 3}}, sampled(GridSampleMode::bilinear))
      .gradients(Gradients::compared);
  Sample nothing("index_reduce", "nothing");
  nothing.composed().in({0, 4}).in({0, 3}).index({3}, 0, 4).in_dtypes({f64, f32}).gradients(Gradients::none);
  all.push_back(nothing.calls([](In in) { return index_reduce(in[0], 1, in[2], in[1], "mean"); }));
  return all;
}

}  // namespace etna::conformance
