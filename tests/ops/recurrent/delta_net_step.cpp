#include <cmath>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/recurrent/internal/states.h>

#include "places.h"

namespace etna::conformance {
namespace {

Tensor in_dtype_of_rows(const Tensor& x) { return x.to(x.dtype() == f64 ? f64 : f32); }

struct StepSizes {
  std::int64_t batch, key_heads, heads, key, value, taps;
};

struct StepPlaces {
  std::int64_t states;
  std::vector<double> rows, positions, counts = {};  ///< counts empty: each step counts
  bool updated = true, tiled = false;
};

Sample step(const char* name, const StepSizes& s, const StepPlaces& at) {
  const std::int64_t channels = 2 * s.key_heads * s.key + s.heads * s.value;
  const Shape each{s.batch};
  Sample sample = Sample("delta_net_step", name)
                      .in({s.batch, 1, channels})
                      .in({channels, s.taps})
                      .in({s.batch, 1, s.heads})
                      .in({s.batch, 1, s.heads})
                      .in({s.heads})
                      .in({s.heads}, -2, 1)
                      .in({at.states, s.taps, channels})
                      .dense()
                      .in({at.states, s.heads, s.key, s.value})
                      .dense();
  add_places(sample, each, at.rows, at.positions);
  const bool counted = !at.counts.empty();
  if (counted) sample.values(each, at.counts).as(i32).constant();
  return sample
      .calls([=](const TensorList& in) {
        const Tensor inputs = in_dtype_of_rows(in[6]).clone(), memory = in_dtype_of_rows(in[7]).clone();
        const Tensor y = delta_net_step(in[0], in[1], in[2], in[3], inputs,
                                        {memory, in[8], in[9], counted ? in[10] : Tensor(), at.updated},
                                        {true, at.tiled, in[4], in[5]});
        return TensorList{y, inputs, memory};
      })
      .gradients(Gradients::none)
      .looser(4)
      .looser_halves(4);  // what is between the two is rounded where they are two
}

}  // namespace

std::vector<Sample> samples_in_delta_net_step() {
  return {
      step("one sequence", {1, 2, 4, 8, 18, 4}, {2, {1}, {6}}),
      step("several, one at its begin", {3, 1, 2, 16, 5, 4}, {4, {2, 0, 3}, {5, 0, 1}}),
      step("tiled heads of primes", {2, 2, 6, 37, 33, 3}, {2, {1, 0}, {131, 2}, {}, true, true}),
      step("an idle one", {3, 1, 1, 4, 3, 2}, {3, {1, 1, 0}, {4, -1, 1}}),
      step("counts of none and of one", {2, 1, 2, 130, 16, 4}, {2, {1, 0}, {3, 9}, {0, 1}}),
      step("states that stay", {2, 2, 2, 5, 4, 4}, {3, {2, 0}, {7, 2}, {}, false}),
      step("one tap", {1, 1, 1, 3, 4, 1}, {1, {0}, {3}}),
      step("no sequences", {0, 1, 2, 3, 4, 4}, {1, {}, {}}),
  };
}

}  // namespace etna::conformance
