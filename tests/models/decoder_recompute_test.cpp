#include <etna/models/decoder.h>

#include <algorithm>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nn/on_device.h>

#include <etna/autograd/autograd.h>
#include <etna/optim/sgd.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

class RecomputedBlocks : public OnDevice {
 protected:
  static DecoderConfig config(bool recompute) {
    return decoder_config("gpt2", {.vocabulary = 96,
                                   .context = 32,
                                   .width = 64,
                                   .layers = 3,
                                   .heads = 2,
                                   .feed_forward = 256,
                                   .dropout = 0.1,
                                   .recompute_blocks = recompute});
  }
  static Tensor tokens(std::uint64_t seed) {
    manual_seed(seed);
    return randint(0, 96, {16, 32}).to(device(), i32);
  }
  static TensorList gradients(const nn::Module& model) {
    TensorList all;
    for (const Tensor& p : model.parameters()) all.push_back(p.grad().defined() ? p.grad().to(kCPU) : Tensor());
    return all;
  }

  /// The gradients of one loss.
  static TensorList gradients(bool recompute, DType precision, const std::function<void(Decoder&)>& prepare) {
    manual_seed(1);
    Decoder model(config(recompute));
    model.to(device());
    prepare(model);
    const Tensor x = tokens(2), y = tokens(3);
    manual_seed(4);
    {
      auto mixed = autocast(precision);
      const Tensor loss = model.loss(x, y);
      loss.backward();
    }
    rand({1});  // the random state is where it would be without recomputation
    return gradients(model);
  }
  static void expect_same(const TensorList& got, const TensorList& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].defined(), wanted[i].defined()) << i;
      EXPECT_TRUE(!got[i].defined() || equal(got[i], wanted[i])) << "parameter " << i;
    }
  }
};
ETNA_ON_EVERY_DEVICE(RecomputedBlocks);

TEST_P(RecomputedBlocks, GiveTheSameGradients) {
  const auto nothing = [](Decoder&) {};
  for (const DType precision : {f32, bf16})
    expect_same(gradients(true, precision, nothing), gradients(false, precision, nothing));
}

TEST_P(RecomputedBlocks, LearnOverFrozenEmbeddings) {
  const auto freeze = [](Decoder& model) {
    model.token_embedding.weight.requires_grad_(false);
    model.position_embedding->weight.requires_grad_(false);
  };
  const TensorList got = gradients(true, f32, freeze);
  expect_same(got, gradients(false, f32, freeze));
  EXPECT_GT(std::count_if(got.begin(), got.end(), [](const Tensor& g) { return g.defined(); }), 20);
}

TEST_P(RecomputedBlocks, TakeLessMemoryInACapturedStep) {
  std::vector<std::uint64_t> bytes;
  std::vector<TensorList> after;
  for (const bool recompute : {false, true}) {
    manual_seed(1);
    Decoder model(config(recompute));
    model.to(device());
    const Tensor x = tokens(2), y = tokens(3);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    manual_seed(4);
    auto step = capture(
        [&](const Tensor& x, const Tensor& y) {
          Tensor loss = model.loss(x, y);
          loss.backward();
          optimizer.step();
          optimizer.zero_grad();
          return loss.detach();
        },
        {.device = device()});
    step(x, y), step(x, y);
    const double once = step.report().capture_ms;
    for (int i = 0; i < 2; ++i) step(x, y);
    EXPECT_EQ(step.report().capture_ms, once) << "captured again";
    EXPECT_LT(step.report().kept_bytes, 1024u);
    bytes.push_back(step.report().live_bytes);
    TensorList& weights = after.emplace_back();
    for (const Tensor& p : model.parameters()) weights.push_back(p.detach().to(kCPU).clone());
  }
  EXPECT_LT(static_cast<double>(bytes[1]), 0.7 * static_cast<double>(bytes[0]));
  for (std::size_t i = 0; i < after[0].size(); ++i)
    EXPECT_TRUE(allclose(after[1][i], after[0][i], 1e-4, 1e-6)) << "parameter " << i;
}

// Fully sharded models gather a block's weights in them.
TEST_P(RecomputedBlocks, RunTheHooksOfEachBlock) {
  const Tensor x = tokens(2), bounds = document_bounds(full({16, 2}, 16, {i32, device()}), 32);
  for (const bool recompute : {false, true}) {
    for (const Tensor& documents : {Tensor(), bounds}) {
      Decoder model(config(recompute));
      model.to(device());
      std::vector<int> calls(model.blocks.size());
      std::vector<HookHandle> handles;
      for (std::size_t i = 0; i < calls.size(); ++i) {
        handles.push_back(model.blocks[i].register_forward_pre_hook([&calls, i](const auto&, const auto&) {
          ++calls[i];
          return TensorList();
        }));
      }
      model.loss(x, tokens(3), documents).backward();
      EXPECT_THAT(calls, testing::Each(recompute ? 2 : 1)) << documents.defined();
    }
  }
}

}  // namespace
}  // namespace etna::models
