#include <array>
#include <thread>

#include <capture/training.h>

namespace etna {
namespace {

/// A model that draws no random numbers after construction: the generator belongs to the process, not to a thread.
struct Lonely {
  std::unique_ptr<models::Decoder> model;
  std::unique_ptr<optim::AdamW> optimizer;

  explicit Lonely(std::uint64_t seed) {
    manual_seed(seed);
    model = std::make_unique<models::Decoder>(models::decoder_config(
        "gpt2", {.vocabulary = 1100, .context = 64, .width = 64, .layers = 2, .heads = 2, .feed_forward = 96}));
    optimizer = std::make_unique<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 1e-2});
  }

  /// The parameters after some steps.
  std::vector<float> train(bool captured) {
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < 8 * 64; ++i) tokens.push_back((i * 7 + i * i) % 1100);
    const Tensor x = from_vector(tokens, {8, 64});
    auto step = [&] {
      Tensor loss = model->loss(x, x);
      loss.backward();
      optimizer->step();
      optimizer->zero_grad();
      return loss;
    };
    if (captured) {
      auto replayed = capture(step);
      for (int i = 0; i < 5; ++i) replayed();
    } else {
      for (int i = 0; i < 3; ++i) step();
    }
    return values_of(model->parameters());
  }
};

class Threads : public testing::TestWithParam<bool> {};

TEST_P(Threads, TrainModelsOfTheirOwnSideBySideToTheBitsOfOneAlone) {
  constexpr std::size_t kThreads = 3;
  std::vector<Lonely> models;
  for (std::size_t i = 0; i < kThreads; ++i) models.emplace_back(i);
  std::array<std::vector<float>, kThreads> together;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { together[i] = models[i].train(GetParam()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kThreads; ++i) {
    EXPECT_TRUE(same_bits(together[i], Lonely(i).train(GetParam()))) << "model " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(, Threads, testing::Bool(),
                         [](const auto& info) { return info.param ? "captured" : "eager"; });

}  // namespace
}  // namespace etna
