#include <cmath>
#include <limits>

#include <conformance/samples.h>
#include <etna/tensor/ops.h>

// Samples of the composed reductions and elementwise functions. Their values are compared with PyTorch in
// tests/torch/elementwise_test.cpp.
namespace etna::conformance {
namespace {

constexpr double kReductionsNaN = std::numeric_limits<double>::quiet_NaN(),
                 kReductionsInfinity = std::numeric_limits<double>::infinity();

template <typename F>
Sample of(const char* name, const char* what, const Shape& shape, F f, double lo = -2) {
  return Sample(name, what)
      .composed()
      .in(shape, lo, 2)
      .away_from({0})
      .distinct()
      .calls([f](const TensorList& in) { return f(in[0]); })
      .in_dtypes({f64, f32});
}

template <typename F>
void reduction(std::vector<Sample>& all, const char* name, F f) {
  all.push_back(of(name, "rows", {3, 5}, f));
  all.push_back(of(name, "no rows", {0, 5}, f));
}

}  // namespace

std::vector<Sample> samples_in_reduce_composed() {
  std::vector<Sample> all;
  reduction(all, "var_mean", [](const Tensor& x) {
    return TensorList{var_mean(x, {1}).first, var_mean(x, {1}).second};
  });
  reduction(all, "std_mean", [](const Tensor& x) {
    return TensorList{std_mean(x, {1}).first, std_mean(x, {1}).second};
  });
  reduction(all, "amax", [](const Tensor& x) { return amax(x, {1}); });
  reduction(all, "amin", [](const Tensor& x) { return amin(x, {1}, true); });
  for (double p : {1.0, 2.0, 3.0, 0.5, kReductionsInfinity}) {
    const std::string order = std::isinf(p) ? "inf" : std::to_string(p).substr(0, 3);
    // Positive where the function of magnitudes has corners: at 0, or where two are equal.
    all.push_back(of(
                      "vector_norm", ("of order " + order).c_str(), {3, 5},
                      [p](const Tensor& x) { return vector_norm(x, p, {1}); }, p < 2 || std::isinf(p) ? 0.1 : -2)
                      .looser(4));
  }
  all.push_back(of("vector_norm", "no rows", {0, 5}, [](const Tensor& x) { return norm(x, 2, {1}); }));
  for (const char* name : {"nansum", "nanmean"}) {
    const bool sums = std::string(name) == "nansum";
    auto call = [sums](const TensorList& in) { return sums ? nansum(in[0], {1}) : nanmean(in[0], {1}); };
    all.push_back(Sample(name, "rows").composed().in({3, 5}).calls(call).in_dtypes({f64, f32}));
    all.push_back(Sample(name, "no rows").composed().in({0, 5}).calls(call).in_dtypes({f64, f32}));
    all.push_back(Sample(name, "with NaN")
                      .composed()
                      .values({2, 3}, {1, kReductionsNaN, 3, kReductionsNaN, kReductionsNaN, kReductionsNaN})
                      .calls(call)
                      .in_dtypes({f64, f32})
                      .gradients(Gradients::none));
  }
  auto truth = [&](const char* name, auto f) {
    auto call = [f](const TensorList& in) { return f(in[0]); };
    for (const Shape& shape : {Shape{3, 5}, Shape{3, 0}}) {
      all.push_back(Sample(name, numel(shape) > 0 ? "rows" : "of nothing")
                        .composed()
                        .in(shape)
                        .whole()
                        .calls(call)
                        .in_dtypes({f64, f32, i32, u8, boolean})
                        .gradients(Gradients::none));
    }
  };
  truth("any", [](const Tensor& x) { return TensorList{any(x, {1}), any(x)}; });
  truth("all", [](const Tensor& x) { return TensorList{etna::all(x, {1}), etna::all(x)}; });
  truth("count_nonzero", [](const Tensor& x) { return count_nonzero(x, {1}); });

  auto pair = [&](const char* name, auto f) {
    for (const Shape& shape : {Shape{3, 4}, Shape{0, 4}}) {
      all.push_back(Sample(name, numel(shape) > 0 ? "three matrices" : "nothing")
                        .composed()
                        .in(shape)
                        .in(shape, 1, 2)
                        .in(shape, 0.6, 0.9)
                        .calls([f](const TensorList& in) { return f(in[0], in[1], in[2]); })
                        .in_dtypes({f64, f32}));
    }
  };
  pair("lerp", [](const Tensor& a, const Tensor& b, const Tensor& w) {
    return TensorList{lerp(a, b, w), lerp(a, b, 0.3)};
  });
  pair("addcmul", [](const Tensor& a, const Tensor& b, const Tensor& c) { return addcmul(a, b, c, 0.5); });
  pair("addcdiv", [](const Tensor& a, const Tensor& b, const Tensor& c) { return addcdiv(a, b, c, 0.5); });
  pair("clamp", [](const Tensor& a, const Tensor& b, const Tensor& c) { return clamp(a, c - 1.3, b); });
  pair("isclose", [](const Tensor& a, const Tensor&, const Tensor&) { return isclose(a, a * (1 + 1e-9)); });
  all.back().gradients(Gradients::none);
  all[all.size() - 2].gradients(Gradients::none);
  for (const Shape& shape : {Shape{2, 4}, Shape{0}}) {
    all.push_back(Sample("nan_to_num", numel(shape) > 0 ? "a matrix" : "nothing")
                      .composed()
                      .in(shape)
                      .calls([](const TensorList& in) { return nan_to_num(in[0]); })
                      .in_dtypes({f64, f32}));
    all.push_back(Sample("isin", numel(shape) > 0 ? "a matrix" : "nothing")
                      .composed()
                      .in(shape, -4, 4)
                      .whole()
                      .in({3}, -4, 4)
                      .whole()
                      .calls([](const TensorList& in) { return isin(in[0], in[1]); })
                      .in_dtypes({f64, f32, i32})
                      .gradients(Gradients::none));
  }
  return all;
}

}  // namespace etna::conformance
