#include <etna/tensor/ops.h>
#include <etna/tensor/ops/recurrent/recurrent.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_recurrent() {
  std::vector<Sample> all;
  // Inputs: x, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh, lengths.
  auto layer = [&](const char* name, RecurrentMode mode, bool reverse, std::int64_t steps, std::int64_t batch,
                   std::int64_t in, std::int64_t h, std::vector<double> lengths, std::vector<DType> dtypes) {
    const std::int64_t width = gates_of(mode) * h;
    auto call = [=](const TensorList& i) {
      const RecurrentWeights weights{i[3], i[4], i[5], i[6], {}};
      const RecurrentLayer y = recurrent_layer(i[0], {i[1], i[2]}, weights, mode, reverse, i[7]);
      TensorList out = {y.output, y.state.h};
      if (y.state.c.defined()) out.push_back(y.state.c);
      return out;
    };
    Sample s("recurrent", name);
    s.in({steps, batch, in}, -1, 1).in({batch, h}, -1, 1);
    mode == RecurrentMode::lstm ? s.in({batch, h}, -1, 1) : s.none();
    s.in({width, in}, -1, 1).in({width, h}, -1, 1).in({width}, -1, 1).in({width}, -1, 1);
    lengths.empty() ? s.none() : s.values({batch}, lengths).as(i32).constant();
    // Each step of f16 and bf16 rounds the state that the next one reads.
    s.calls(call).covers({"recurrent_backward"}).looser(2).looser_halves(4).in_dtypes(dtypes);
    if (mode == RecurrentMode::rnn_relu) s.gradients(Gradients::compared);
    all.push_back(s);
  };
  const std::vector<DType> exact = {f64, f32};
  layer("lstm", RecurrentMode::lstm, false, 3, 2, 2, 2, {}, kFloats);
  layer("lstm, reversed, lengths", RecurrentMode::lstm, true, 3, 3, 2, 2, {3, 1, 2}, exact);
  layer("gru", RecurrentMode::gru, false, 3, 2, 2, 2, {}, exact);
  layer("gru, reversed, lengths", RecurrentMode::gru, true, 3, 3, 2, 2, {2, 3, 0}, kFloats);
  layer("tanh, lengths", RecurrentMode::rnn_tanh, false, 3, 2, 2, 3, {2, 3}, exact);
  layer("relu, reversed", RecurrentMode::rnn_relu, true, 3, 2, 2, 3, {}, exact);
  layer("prime sizes", RecurrentMode::lstm, false, 2, 11, 3, 37, {}, {f64, f32, bf16});
  layer("no rows", RecurrentMode::gru, false, 2, 0, 2, 2, {}, exact);
  return all;
}

}  // namespace etna::conformance
