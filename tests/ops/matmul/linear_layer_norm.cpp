#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

TensorList both(const AddedNorm& y) { return {y.sum, y.normed}; }

TensorList end_of_linear(const TensorList& t) { return both(linear_layer_norm(t[0], t[1], t[2], t[3], t[4], t[5])); }

/// Absent inputs are left out of the sample.
Sample layer(const char* name, Shape x, std::int64_t out, bool bias = true, bool weight = true, bool shift = true) {
  Shape y = x;
  y.back() = out;
  Sample s("linear_layer_norm", name);
  s.in(x, -1, 1).in({out, x.back()}, -1, 1);
  bias ? s.in({out}, -1, 1) : s.none();
  s.in(y);
  weight ? s.in({out}) : s.none();
  shift ? s.in({out}) : s.none();
  // the sums are rounded, then their norm
  return s.calls(end_of_linear).covers({"layer_norm_backward"}).looser_halves(3);
}

Sample layers(const char* name, Shape x, std::int64_t hidden, std::int64_t out, Activation activation) {
  Shape y = x;
  y.back() = out;
  return Sample("feed_forward_layer_norm", name)
      .in(x, -1, 1)
      .in({hidden, x.back()}, -1, 1)
      .in({hidden}, -1, 1)
      .in({out, hidden}, -1, 1)
      .in({out}, -1, 1)
      .in(y)
      .in({out})
      .in({out})
      .calls([activation](const TensorList& t) {
        return both(feed_forward_layer_norm(t[0], t[1], t[2], t[3], t[4], activation, t[5], t[6], t[7]));
      })
      .covers({"layer_norm_backward"})
      .looser_halves(3);
}

/// Under autocast the stream and the norm's parameters stay f32; the matrix products and the norm are narrow.
Sample mixed(const char* name, Shape x, std::int64_t out) {
  return Sample("linear_layer_norm", name)
      .in(x, -1, 1)
      .in({out, x.back()}, -1, 1)
      .in({out}, -1, 1)
      .in({x[0], out})
      .as(f32)
      .in({out})
      .as(f32)
      .in({out})
      .as(f32)
      .calls([](const TensorList& t) {
        auto guard = autocast(t[0].dtype() == f64 ? f32 : t[0].dtype());
        return end_of_linear(t);
      })
      .in_dtypes({f16, bf16})
      .gradients(Gradients::compared)
      .covers({"layer_norm_backward"})
      .looser_halves(3);
}

}  // namespace

std::vector<Sample> samples_in_linear_layer_norm() {
  return {
      layer("rows", {3, 7}, 6),
      layer("one row", {7}, 6).in_dtypes({f64, f32}).gradients(Gradients::compared),
      layer("batch", {2, 3, 5}, 7).in_dtypes({f64, f32}).gradients(Gradients::compared),
      layer("bare", {3, 7}, 6, false, false, false).in_dtypes({f64, f32}),
      layer("weight alone", {3, 7}, 6, false, true, false).in_dtypes({f64, f32}).gradients(Gradients::compared),
      layer("prime sizes", {11, 67}, 37).gradients(Gradients::compared),
      layer("too wide for a tile", {3, 5}, 259).in_dtypes({f64, f32, bf16}).gradients(Gradients::compared),
      layer("no rows", {0, 5}, 4).in_dtypes({f64, f32}),
      layer("no columns", {3, 5}, 0).in_dtypes({f64, f32}),
      layer("no inputs", {3, 0}, 4).in_dtypes({f64, f32}),
      mixed("mixed", {5, 7}, 6),
      mixed("mixed, by fours", {9, 16}, 32),
      layers("gelu_tanh", {3, 5}, 7, 4, Activation::gelu_tanh),
      layers("silu", {2, 3, 5}, 7, 4, Activation::silu).in_dtypes({f64, f32}).gradients(Gradients::compared),
      layers("one row", {5}, 7, 4, Activation::gelu_tanh).in_dtypes({f64, f32}).gradients(Gradients::compared),
      layers("no rows", {0, 5}, 7, 4, Activation::gelu_tanh).in_dtypes({f64, f32}),
      layers("nothing hidden", {2, 5}, 0, 4, Activation::gelu_tanh).in_dtypes({f64, f32}),
      layers("prime sizes", {7, 37}, 71, 41, Activation::gelu)
          .in_dtypes({f64, f32})
          .gradients(Gradients::compared)
          .looser(2),
  };
}

}  // namespace etna::conformance
