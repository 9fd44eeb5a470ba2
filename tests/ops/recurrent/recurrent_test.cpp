#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include <etna/autograd/autograd.h>
#include <etna/nn/recurrent.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/recurrent/recurrent.h>
#include <nn/on_device.h>

namespace etna {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class Recurrent : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    manual_seed(7);
  }
  static Tensor draw(Shape shape) { return randn(shape, {f32, device()}); }
};

TEST_P(Recurrent, StepsOneByOneGiveTheLayer) {
  nn::LSTM lstm(5, 35);
  lstm.to(device());
  NoGrad off;
  const Tensor x = draw({4, 9, 5});
  const nn::RecurrentOutput whole = lstm(x);
  RecurrentState state{zeros({9, 35}, {f32, device()}), zeros({9, 35}, {f32, device()})};
  for (std::int64_t t = 0; t < 4; ++t) {
    state = lstm_cell(x[t], state, lstm.weights(0));
    expect_near(state.h, whole.output[t], 1e-6);
  }
  expect_near(state.c, whole.state.c[0], 1e-6);
}

TEST_P(Recurrent, ASequenceIsNotTouchedByItsPadding) {
  nn::GRU gru(3, 4, {.num_layers = 2, .bidirectional = true});
  gru.to(device());
  const Tensor x = draw({5, 2, 3});
  Tensor padded = x.clone();
  // NaN in the padding of the first sequence, which has three steps.
  padded.slice(0, 3, 5).select(1, 0).fill_(std::numeric_limits<double>::quiet_NaN());
  const Tensor lengths = from_vector<std::int64_t>({3, 5}, device());
  const nn::RecurrentOutput y = gru(padded, {}, lengths);
  const nn::RecurrentOutput alone = gru(x.slice(0, 0, 3).slice(1, 0, 1));
  expect_near(y.output.slice(0, 0, 3).slice(1, 0, 1).detach(), alone.output.detach(), 1e-6);
  expect_near(y.output.slice(0, 3, 5).slice(1, 0, 1).detach(), std::vector<double>(16, 0), 0);
  expect_near(y.state.h.slice(1, 0, 1).detach(), alone.state.h.detach(), 1e-6);
}

TEST_P(Recurrent, GradientsAreNotTouchedByWhatIsBehindALength) {
  const Tensor lengths = from_vector<std::int64_t>({2, 4}, device()), clean = draw({4, 2, 3});
  for (const double behind : {-HUGE_VAL, HUGE_VAL, std::nan("")}) {
    const auto check = [&](auto&& layer) {
      layer.to(device());
      const auto gradients = [&](double padding) {
        Tensor x = clean.clone();
        x.slice(0, 2, 4).select(1, 0).fill_(padding);
        x.requires_grad_();
        layer.zero_grad();
        layer(x, {}, lengths).output.sum().backward();
        std::vector<Tensor> all = {x.grad()};
        for (const Tensor& p : layer.parameters()) all.push_back(p.grad());
        return all;
      };
      const std::vector<Tensor> wanted = gradients(0), got = gradients(behind);
      for (std::size_t i = 0; i < got.size(); ++i) expect_near(got[i], wanted[i], 0);
    };
    check(nn::RNN(3, 4, {.num_layers = 2, .bidirectional = true}));
    check(nn::GRU(3, 4, {.bidirectional = true}));
    check(nn::LSTM(3, 4, {.bidirectional = true}));
    check(nn::LSTM(3, 4, {.proj_size = 2}));
  }
}

TEST_P(Recurrent, LengthsChangeFromReplayToReplay) {
  nn::RNN rnn(2, 3);
  rnn.to(device());
  const Tensor x = draw({4, 2, 2});
  const auto eager = [&](const std::vector<std::int64_t>& lengths) {
    NoGrad off;
    return rnn(x, {}, from_vector(lengths, device())).output.to_vector<float>();
  };
  auto step = capture(
      [&](const Tensor& lengths) {
        NoGrad off;
        return rnn(x, {}, lengths).output;
      },
      {.device = device()});
  for (const std::vector<std::int64_t>& lengths :
       std::vector<std::vector<std::int64_t>>{{4, 1}, {2, 3}, {1, 4}, {0, 2}})
    EXPECT_EQ(step(from_vector(lengths, device())).to_vector<float>(), eager(lengths));
}

TEST_P(Recurrent, ACapturedTrainingStepGivesEagersBits) {
  nn::LSTM lstm(3, 5, {.num_layers = 2, .bidirectional = true});
  lstm.to(device());
  const Tensor x = draw({3, 2, 3});
  const auto gradients = [&] {
    lstm.zero_grad();
    sum(square(lstm(x).output)).backward();
    std::vector<float> all;
    for (const Tensor& p : lstm.parameters()) {
      for (float v : p.grad().to_vector<float>()) all.push_back(v);
    }
    return all;
  };
  const std::vector<float> wanted = gradients();
  auto step = capture(
      [&] {
        lstm.zero_grad();
        Tensor loss = sum(square(lstm(x).output));
        loss.backward();
        return loss;
      },
      {.device = device()});
  for (int i = 0; i < 3; ++i) step();
  std::vector<float> got;
  for (const Tensor& p : lstm.parameters()) {
    for (float v : p.grad().to_vector<float>()) got.push_back(v);
  }
  EXPECT_EQ(got, wanted);
}

TEST_P(Recurrent, CarriesNaNAndSaturates) {
  const RecurrentWeights w{ones({3, 1}, {f32, device()}), zeros({3, 1}, {f32, device()}), {}, {}, {}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = from_vector<double>({nan, 1e30, -1e30}, {1, 3, 1}).to(device(), f32);
  const std::vector<double> h = recurrent_layer(x, {}, w, RecurrentMode::gru).output.to_vector<double>();
  EXPECT_TRUE(std::isnan(h[0]));
  EXPECT_EQ(h[1], 0);   // σ(1e30) = 1 keeps the state, 0
  EXPECT_EQ(h[2], -1);  // σ(-1e30) = 0 takes tanh(-1e30)
  const RecurrentWeights plain{ones({1, 1}, {f32, device()}), zeros({1, 1}, {f32, device()}), {}, {}, {}};
  const std::vector<double> r = recurrent_layer(x, {}, plain, RecurrentMode::rnn_relu).output.to_vector<double>();
  EXPECT_TRUE(std::isnan(r[0]));
  EXPECT_EQ(r[2], 0);
}

TEST_P(Recurrent, AutocastLowersItsGemms) {
  nn::LSTM lstm(4, 4);
  lstm.to(device());
  const Tensor x = draw({3, 2, 4});
  const Tensor wanted = lstm(x).output.detach();
  auto mixed = autocast(bf16);
  const nn::RecurrentOutput y = lstm(x);
  EXPECT_EQ(y.output.dtype(), bf16);
  EXPECT_EQ(y.state.c.dtype(), bf16);
  expect_near(y.output.detach().to(f32), wanted, 0.03);
}

TEST_P(Recurrent, DropsBetweenLayersWhileTraining) {
  nn::LSTM lstm(4, 8, {.num_layers = 2, .dropout = 0.5});
  lstm.to(device());
  const Tensor x = draw({3, 2, 4});
  NoGrad off;
  EXPECT_NE(lstm(x).output.to_vector<float>(), lstm(x).output.to_vector<float>());
  lstm.eval();
  EXPECT_EQ(lstm(x).output.to_vector<float>(), lstm(x).output.to_vector<float>());
}

TEST_P(Recurrent, TakesStridedInputsAndStates) {
  nn::GRU gru(3, 4);
  gru.to(device());
  NoGrad off;
  const Tensor x = draw({3, 2, 5}).permute({2, 1, 0}), h = draw({4, 2, 1}).permute({2, 1, 0});
  EXPECT_EQ(gru(x, {h, {}}).output.to_vector<float>(),
            gru(x.contiguous(), {h.contiguous(), {}}).output.to_vector<float>());
}

ETNA_ON_EVERY_DEVICE(Recurrent);

TEST(RecurrentErrors, NameWhatDoesNotFit) {
  nn::LSTM lstm(3, 4);
  EXPECT_THAT([&] { lstm(ones({2, 2, 5})); }, ThrowsMessage<ShapeError>(HasSubstr("input_size 3")));
  EXPECT_THAT([&] { lstm(ones({0, 2, 3})); }, ThrowsMessage<ShapeError>(HasSubstr("no steps")));
  EXPECT_THAT(
      [&] {
        lstm(ones({2, 2, 3}), {zeros({1, 3, 4}), zeros({1, 3, 4})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("wanted [1, 2, 4]")));
  EXPECT_THAT([&] { lstm(ones({2, 2, 3}), {zeros({1, 2, 4}), {}}); }, ThrowsMessage<Error>(HasSubstr("both h and c")));
  EXPECT_THAT([&] { lstm(ones({2, 2, 3}, i64)); }, ThrowsMessage<DtypeError>(HasSubstr("")));
  EXPECT_THAT([&] { lstm(Tensor()); }, ThrowsMessage<ShapeError>(HasSubstr("undefined")));
  EXPECT_THAT(
      [&] {
        lstm(ones({2, 2, 3}), {}, from_vector<std::int64_t>({1}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("lengths")));
  EXPECT_THAT([&] { lstm(ones({2, 2, 3}), {}, ones({2})); }, ThrowsMessage<DtypeError>(HasSubstr("lengths")));
  EXPECT_THROW(nn::GRU(3, 4, {.proj_size = 2}), ShapeError);
  EXPECT_THROW(nn::LSTM(0, 4), ShapeError);
  EXPECT_THROW(nn::LSTM(3, 4, {.dropout = 1.5}), Error);
  EXPECT_EQ(lstm(ones({2, 0, 3})).output.shape(), Shape({2, 0, 4}));
  EXPECT_EQ(lstm(ones({2, 3})).output.shape(), Shape({2, 4}));
}

TEST(PackedSequences, PackAndReturn) {
  const Tensor x = arange(0, 12, 1, {f32}).reshape({3, 2, 2});
  const nn::PackedSequence packed = nn::pack_padded_sequence(x, {1, 3}, false, false);
  EXPECT_EQ(packed.batch_sizes, std::vector<std::int64_t>({2, 1, 1}));
  EXPECT_EQ(packed.sorted_indices, std::vector<std::int64_t>({1, 0}));
  EXPECT_EQ(packed.data.to_vector<float>(), std::vector<float>({2, 3, 0, 1, 6, 7, 10, 11}));
  const nn::PaddedSequence back = nn::pad_packed_sequence(packed, true, -1, 4);
  EXPECT_EQ(back.lengths, std::vector<std::int64_t>({1, 3}));
  EXPECT_EQ(back.data.to_vector<float>(),
            std::vector<float>({0, 1, -1, -1, -1, -1, -1, -1, 2, 3, 6, 7, 10, 11, -1, -1}));
  EXPECT_THROW(nn::pack_padded_sequence(x, {1, 3}), ShapeError);
  EXPECT_THROW(nn::pack_padded_sequence(x, {4, 3}), ShapeError);
  EXPECT_THROW(nn::pack_padded_sequence(x, {3, 0}), ShapeError);
  EXPECT_THROW(nn::pack_padded_sequence(x, {3}), ShapeError);
  EXPECT_THROW(nn::pad_packed_sequence(packed, true, 0, 2), ShapeError);
  EXPECT_THROW(nn::pad_packed_sequence({}), ShapeError);
  const std::vector<Tensor> list = {ones({1, 2}), zeros({3, 2})};
  EXPECT_EQ(nn::pad_sequence(list, true, 5).to_vector<float>(),
            std::vector<float>({1, 1, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(nn::pack_sequence(list, false).data.shape(), Shape({4, 2}));
}

}  // namespace
}  // namespace etna
