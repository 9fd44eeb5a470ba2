#include <etna/nn/lstm_language_model.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/nn/parameters.h>
#include <etna/optim/optim.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

#include "on_device.h"

namespace etna::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr LSTMLanguageModelConfig kSmall = {.layers = 2, .dim = 8, .hidden = 12, .vocab = 11};

TEST(WeightDrop, DropsOtherWeightsInEachCall) {
  manual_seed(1);
  LSTM lstm(4, 6);
  const Tensor before = lstm.weights(0).weight_hh.detach().clone(), x = randn({5, 2, 4});
  const Tensor plain = lstm(x).output;
  weight_drop(lstm, "weight_hh_l0", 0.5);
  EXPECT_EQ(lstm.state_dict().count("weight_hh_l0_raw"), 1u);
  EXPECT_EQ(lstm.parameters().size(), 4u);
  const Tensor first = lstm(x).output, second = lstm(x).output;
  EXPECT_FALSE(equal(first, second));
  lstm.eval();
  EXPECT_TRUE(equal(lstm(x).output, plain));
  lstm.train();
  lstm(x).output.sum().backward();
  for (const Tensor& p : lstm.parameters()) EXPECT_TRUE(p.grad().defined());
  remove_weight_drop(lstm, "weight_hh_l0");
  EXPECT_TRUE(equal(lstm.weights(0).weight_hh, before));
  EXPECT_THAT([&] { weight_drop(lstm, "weight_hh_l0", 2); }, ThrowsMessage<Error>(HasSubstr("weight_drop")));
}

TEST(LSTMLanguageModel, GoesOnFromItsState) {
  manual_seed(2);
  LSTMLanguageModel model(kSmall);
  model.eval();
  const Tensor tokens = randint(0, 11, {3, 8});
  LSTMLanguageModel::State whole(model, 3, kCPU), parts(model, 3, kCPU);
  const Tensor all = model.forward(tokens, whole);
  EXPECT_EQ(all.shape(), (Shape{3, 8, 11}));
  model.forward(tokens.slice(1, 0, 5), parts);
  const Tensor rest = model.forward(tokens.slice(1, 5, 8), parts);
  EXPECT_TRUE(allclose(rest, all.slice(1, 5, 8), 1e-5, 1e-6));
  parts.zero();
  EXPECT_EQ(parts.state_dict().at("h.0").abs().sum().item<float>(), 0);
  parts.load_state_dict(whole.state_dict());
  EXPECT_TRUE(equal(parts.state_dict().at("c.1"), whole.state_dict().at("c.1")));
  EXPECT_THROW(parts.load_state_dict({}), Error);
  EXPECT_THROW(model.forward(tokens.flatten(), whole), ShapeError);
}

class LSTMModel : public OnDevice {};

TEST_P(LSTMModel, LearnsCaptured) {
  manual_seed(3);
  LSTMLanguageModel model({.layers = 2,
                           .dim = 16,
                           .hidden = 24,
                           .vocab = 7,
                           .dropout_embedding = 0.05,
                           .dropout_input = 0.1,
                           .dropout_hidden = 0.1,
                           .dropout_output = 0.1,
                           .weight_drop = 0.1,
                           .activation = 0.01,
                           .slowness = 0.01});
  model.to(device());
  optim::AdamW optimizer(model.parameters(), {.lr = 0.02});
  LSTMLanguageModel::State state(model, 4, device());
  // The tokens count in circles.
  const Tensor ring = (arange(4 * 9) * 3).remainder(7.0).to(i32).reshape({4, 9});
  const Tensor x = ring.slice(1, 0, 8).contiguous().to(device()), y = ring.slice(1, 1, 9).contiguous().to(device());
  auto step = capture(
      [&](const Tensor& tokens, const Tensor& targets) {
        Tensor loss = model.loss(tokens, targets, state);
        loss.backward();
        optimizer.step();
        optimizer.zero_grad();
        return loss.detach();
      },
      {.device = device()});
  const float first = step(x, y).item<float>();
  float last = first;
  for (int i = 0; i < 60; ++i) last = step(x, y).item<float>();
  EXPECT_NEAR(first, std::log(7.0f), 0.3);
  EXPECT_LT(last, first / 3);
}
ETNA_ON_EVERY_DEVICE(LSTMModel);

}  // namespace
}  // namespace etna::nn
