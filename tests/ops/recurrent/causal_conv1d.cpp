#include <etna/tensor/ops.h>
#include <etna/tensor/ops/recurrent/internal/states.h>

#include "places.h"

namespace etna::conformance {
namespace {

Tensor in_state_dtype(const Tensor& x) { return x.to(x.dtype() == f64 ? f64 : f32); }

Sample beginning(const char* name, Shape x, std::int64_t taps, bool bias, bool silu) {
  return Sample("causal_conv1d", name).in(x).in({x[2], taps}).in({x[2]}).calls([=](const TensorList& in) {
    return causal_conv1d(in[0], in[1], bias ? in[2] : Tensor(), silu);
  });
}

struct ConvolutionPlaces {
  std::vector<double> rows, positions, counts;  ///< counts empty: all steps count
  bool updated = true;
};

/// @param states how many rows there are
Sample going_on(const char* name, Shape x, std::int64_t taps, std::int64_t states, const ConvolutionPlaces& at) {
  const Shape each{x[0]};
  Sample sample = Sample("causal_conv1d", name).in(x).in({x[2], taps}).in({x[2]}).in({states, taps, x[2]}).dense();
  add_places(sample, each, at.rows, at.positions);
  const bool counted = !at.counts.empty();
  if (counted) sample.values(each, at.counts).as(i32).constant();
  return sample
      .calls([=](const TensorList& in) {
        const Tensor state = in_state_dtype(in[3]).clone();
        const Tensor y =
            causal_conv1d(in[0], in[1], in[2], true, {state, in[4], in[5], counted ? in[6] : Tensor(), at.updated});
        return TensorList{y, state};
      })
      .gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_causal_conv1d() {
  return {
      beginning("four steps", {2, 7, 5}, 4, true, true),
      beginning("one step", {1, 3, 4}, 1, false, false),
      beginning("fewer steps than it spans", {2, 2, 3}, 5, true, false),
      beginning("sizes of primes", {2, 37, 131}, 3, false, true),
      beginning("the widest", {1, 41, 3}, kMostConvolution, true, false),
      beginning("no steps", {2, 0, 3}, 4, true, true),
      beginning("no sequences", {0, 5, 3}, 4, true, true),
      going_on("a step of each", {3, 1, 67}, 4, 4, {{2, 0, 3}, {5, 0, 17}, {}}),
      going_on("an idle one", {3, 1, 5}, 3, 3, {{1, 1, 0}, {4, -1, 2}, {}}),
      going_on("chunks of a prompt", {2, 19, 3}, 4, 2, {{1, 0}, {64, 0}, {17, 2}}),
      going_on("counts of none and of all", {3, 5, 2}, 4, 3, {{0, 1, 2}, {3, 2, 1}, {0, 5, 1}}),
      going_on("no steps behind a state", {2, 0, 3}, 4, 2, {{1, 0}, {3, 4}, {}}),
      going_on("guesses behind states", {3, 3, 5}, 4, 4, {{2, 0, 3}, {5, 0, -1}, {}, false}),
      going_on("a long look ahead", {2, 19, 3}, 4, 2, {{1, 0}, {64, 2}, {17, 19}, false}),
      going_on("one step without a state", {1, 3, 4}, 1, 1, {{0}, {3}, {}}),
  };
}

}  // namespace etna::conformance
