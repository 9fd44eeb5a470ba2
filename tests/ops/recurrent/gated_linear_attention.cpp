#include <cmath>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/recurrent/internal/states.h>

#include "places.h"

namespace etna::conformance {
namespace {

Tensor state_of_row(const Tensor& x) { return x.to(x.dtype() == f64 ? f64 : f32); }

/// Sizes of a layer: sequences, steps, heads of keys and of values, elements of each.
struct Heads {
  std::int64_t batch, steps, key_heads, heads, key, value;
};

/// q, k, v, g and beta. Keys are short, as normed ones are: else the state grows from step to step.
Sample inputs(const char* name, const Heads& s) {
  const double most = 1 / std::sqrt(static_cast<double>(s.key));
  return Sample("gated_linear_attention", name)
      .in({s.batch, s.steps, s.key_heads, s.key}, -1, 1)
      .in({s.batch, s.steps, s.key_heads, s.key}, -most, most)
      .in({s.batch, s.steps, s.heads, s.value})
      .in({s.batch, s.steps, s.heads}, -2, 0)
      .in({s.batch, s.steps, s.heads}, 0.1, 0.9);
}

Sample delta(const char* name, const Heads& s) {
  return inputs(name, s).calls(
      [](const TensorList& in) { return gated_delta_rule(in[0], in[1], in[2], in[3], in[4]); });
}

Sample scan(const char* name, const Heads& s) {
  const double most = 1 / std::sqrt(static_cast<double>(s.key));
  return Sample("gated_linear_attention", name)
      .in({s.batch, s.steps, s.heads, s.value})
      .in({s.batch, s.steps, s.heads}, 0.1, 0.9)
      .in({s.heads}, -2, -0.5)
      .in({s.batch, s.steps, s.key_heads, s.key}, -most, most)
      .in({s.batch, s.steps, s.key_heads, s.key}, -1, 1)
      .in({s.heads})
      .calls([](const TensorList& in) { return state_space_scan(in[0], in[1], in[2], in[3], in[4], in[5]); });
}

/// As layers of Qwen3-Next's design call it.
Sample layer(const char* name, const Heads& s, bool tiled) {
  return Sample("gated_linear_attention", name)
      .in({s.batch, s.steps, s.key_heads, s.key})
      .in({s.batch, s.steps, s.key_heads, s.key})
      .in({s.batch, s.steps, s.heads, s.value})
      .in({s.batch, s.steps, s.heads})
      .in({s.batch, s.steps, s.heads})
      .in({s.heads})
      .in({s.heads}, -2, 1)
      .calls([=](const TensorList& in) {
        return gated_delta_rule(in[0], in[1], in[2], in[3], in[4], {}, {true, tiled, in[5], in[6]});
      })
      .looser(4);
}

struct HeadPlaces {
  std::int64_t states;
  std::vector<double> rows, positions, counts = {};  ///< counts empty: all steps count
  bool updated = true;
};

Sample going_on(const char* name, const Heads& s, const HeadPlaces& at, bool is_delta) {
  const Shape each{s.batch};
  Sample sample = inputs(name, s).in({at.states, s.heads, s.key, s.value}).dense();
  add_places(sample, each, at.rows, at.positions);
  sample.in({s.heads}, -2, -0.5);
  const bool counted = !at.counts.empty();
  if (counted) sample.values(each, at.counts).as(i32).constant();
  return sample
      .calls([=](const TensorList& in) {
        const Tensor state = state_of_row(in[5]).clone();
        const StateRows places{state, in[6], in[7], counted ? in[9] : Tensor(), at.updated};
        const Tensor y = is_delta ? gated_delta_rule(in[0], in[1], in[2], in[3], in[4], places)
                                  : state_space_scan(in[2], in[4], in[8], in[1], in[0], in[8], places);
        return TensorList{y, state};
      })
      .gradients(Gradients::none)
      .looser_halves(4);  // products that the scan rounds before and behind the op
}

}  // namespace

std::vector<Sample> samples_in_gated_linear_attention() {
  return {
      delta("the delta rule", {2, 5, 1, 2, 3, 4}).looser_halves(4),
      delta("sizes of primes", {1, 67, 2, 6, 37, 19}).gradients(Gradients::first).looser(4),
      delta("wide heads", {1, 3, 1, 1, 131, 17}).gradients(Gradients::first).looser_halves(4),
      delta("no steps", {2, 0, 1, 2, 3, 4}),
      delta("no sequences", {0, 5, 1, 2, 3, 4}),
      delta("keys without elements", {1, 3, 1, 2, 0, 4}),
      scan("a scan", {2, 6, 1, 2, 4, 3}).looser_halves(4),
      scan("a scan of primes", {1, 41, 1, 3, 17, 23}).gradients(Gradients::first).looser(4),
      scan("a scan of no steps", {1, 0, 1, 3, 4, 5}),
      delta("many steps", {1, 131, 2, 4, 16, 12}).gradients(Gradients::first).looser(4),
      scan("a scan of many steps", {1, 150, 1, 2, 9, 21}).gradients(Gradients::first).looser(4),
      layer("a layer", {2, 5, 2, 4, 6, 4}, false),
      layer("a layer of tiled heads", {1, 37, 2, 6, 12, 5}, true).gradients(Gradients::first),
      layer("a layer of many steps", {1, 130, 2, 4, 8, 5}, true).gradients(Gradients::first),
      going_on("many steps of prompts", {3, 133, 1, 2, 12, 7}, {4, {1, 0, 3}, {64, 0, -1}, {131, 133, 7}}, true),
      going_on("a step of each", {3, 1, 2, 4, 16, 18}, {4, {2, 0, 3}, {5, 0, 17}}, true),
      going_on("an idle one", {3, 1, 1, 2, 3, 5}, {3, {1, 1, 0}, {4, -1, 2}}, true),
      going_on("chunks of prompts", {2, 40, 1, 2, 9, 5}, {2, {1, 0}, {64, 0}, {37, 2}}, true),
      going_on("counts of none and of all", {3, 5, 1, 1, 3, 2}, {3, {0, 1, 2}, {3, 2, 1}, {0, 5, 1}}, false),
      going_on("a step of scans", {2, 1, 1, 3, 7, 33}, {3, {2, 1}, {8, 9}}, false),
      going_on("guesses behind states", {3, 4, 2, 4, 16, 18}, {4, {2, 0, 3}, {5, 0, -1}, {}, false}, true),
      going_on("a long look ahead", {2, 70, 1, 2, 9, 5}, {2, {1, 0}, {64, 2}, {70, 37}, false}, true),
      going_on("no steps behind a state", {2, 0, 1, 2, 3, 4}, {2, {1, 0}, {3, 4}}, true),
  };
}

}  // namespace etna::conformance
