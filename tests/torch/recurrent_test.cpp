#include <functional>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include <etna/nn/recurrent.h>
#include <etna/tensor/ops.h>
#include <torch/modules.h>

namespace etna {
namespace {

using Made = std::unique_ptr<nn::RecurrentModule>;

Made recurrent_make(const std::string& name) {
  const nn::RecurrentOptions deep{.num_layers = 2, .bidirectional = true};
  if (name == "rnn_tanh") return std::make_unique<nn::RNN>(2, 3, deep);
  if (name == "rnn_relu")
    return std::make_unique<nn::RNN>(2, 3, nn::RecurrentOptions{.bias = false}, nn::Nonlinearity::relu);
  if (name == "lstm_proj")
    return std::make_unique<nn::LSTM>(2, 3, nn::RecurrentOptions{.num_layers = 2, .proj_size = 2});
  if (name == "lstm_unbatched") return std::make_unique<nn::LSTM>(2, 3);
  if (name == "gru") {
    return std::make_unique<nn::GRU>(2, 3,
                                     nn::RecurrentOptions{.num_layers = 2, .batch_first = true, .bidirectional = true});
  }
  if (name == "gru_packed") return std::make_unique<nn::GRU>(2, 3, nn::RecurrentOptions{.batch_first = true});
  return std::make_unique<nn::LSTM>(2, 3, deep);
}

TEST(TorchRecurrent, OutputsStatesAndGradients) {
  const nlohmann::json all = figures::load("recurrent");
  for (Device device : figures::devices()) {
    for (const auto& [name, figure] : all["cases"].items()) {
      const Made module = recurrent_make(name);
      figures::load_state(*module, figure["state"]);
      module->to(device);
      const Tensor x = figures::tensor(figure["x"], device).requires_grad_();
      const TensorList given = figures::tensors(figure["given"], device);
      RecurrentState state;
      if (!given.empty()) state.h = given[0];
      if (given.size() > 1) state.c = given[1];
      nn::RecurrentOutput y;
      if (figure["lengths"].empty()) {
        y = (*module)(x, state);
      } else {
        const auto lengths = figure["lengths"].get<std::vector<std::int64_t>>();
        const bool first = module->options.batch_first;
        const nn::PackedOutput packed = (*module)(nn::pack_padded_sequence(x, lengths, first, false), state);
        const nn::PaddedSequence padded = nn::pad_packed_sequence(packed.output, first);
        EXPECT_EQ(padded.lengths, lengths);
        y = {padded.data, packed.state};
        // The same with lengths on the device, without packing.
        const auto again = (*module)(x, state, from_vector(lengths, device));
        figures::expect_close(again.output, figure["output"], 1e-5, name + ", lengths on the device");
        figures::expect_close(again.state.h, figure["last"][0], 1e-5, name + ", lengths on the device");
      }
      TensorList outputs = {y.output, y.state.h};
      if (y.state.c.defined()) outputs.push_back(y.state.c);
      nlohmann::json wanted = nlohmann::json::array({figure["output"]});
      for (const auto& last : figure["last"]) wanted.push_back(last);
      figures::expect_results(name, *module, outputs, wanted, figures::tensors(figure["seeds"], device), {x},
                              nlohmann::json::array({figure["x_gradient"]}), figure["gradients"]);
    }
  }
}

TEST(TorchRecurrent, SingleSteps) {
  const nlohmann::json all = figures::load("recurrent");
  for (Device device : figures::devices()) {
    const auto& cells = all["cells"];
    const auto at = [&](const char* cell, const char* name) { return figures::tensor(cells[cell][name], device); };
    nn::RNNCell rnn(2, 3);
    nn::LSTMCell lstm(2, 3);
    nn::GRUCell gru(2, 3);
    for (const auto& [name, cell] : std::map<std::string, nn::Module*>{{"rnn", &rnn}, {"lstm", &lstm}, {"gru", &gru}}) {
      figures::load_state(*cell, cells[name]["state"]);
      cell->to(device);
    }
    figures::expect_close(rnn(at("rnn", "x"), at("rnn", "h")), cells["rnn"]["last"][0], 1e-5, "rnn");
    figures::expect_close(gru(at("gru", "x"), at("gru", "h")), cells["gru"]["last"][0], 1e-5, "gru");
    const RecurrentState y = lstm(at("lstm", "x"), {at("lstm", "h"), at("lstm", "c")});
    figures::expect_close(y.h, cells["lstm"]["last"][0], 1e-5, "lstm");
    figures::expect_close(y.c, cells["lstm"]["last"][1], 1e-5, "lstm");
    // Without a batch: the first row alone.
    const RecurrentState single = lstm(at("lstm", "x")[0], {at("lstm", "h")[0], at("lstm", "c")[0]});
    EXPECT_EQ(single.h.shape(), Shape({3}));
    EXPECT_EQ(single.h.to_vector<float>(), y.h[0].to_vector<float>());
  }
}

}  // namespace
}  // namespace etna
