#include <algorithm>

#include <etna/models/sampling.h>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>

#include "small_models.h"

namespace etna::models {
namespace {

TEST(BeamSearch, OfWidthOneIsGreedy) {
  const auto model = small_model(small_config("llama"));
  const std::vector<std::int32_t> prompt = some_text(5, 97);
  std::vector<std::int32_t> greedy;
  Generator generator(*model, {.cache = {.dtype = f32}});
  generator.generate(prompt, {.max_tokens = 30, .sampling = {.temperature = 0}}, [&](std::int32_t token) {
    greedy.push_back(token);
    return true;
  });
  const std::vector<Beam> beams = beam_search(*model, kCPU, prompt, {.width = 1, .max_tokens = 30});
  ASSERT_EQ(beams.size(), 1u);
  EXPECT_EQ(beams[0].tokens, greedy);
}

TEST(BeamSearch, AsWideAsTheVocabularyFindsTheBestPair) {
  DecoderConfig config = small_config("qwen2");
  config.vocabulary = 11;
  const auto model = small_model(config);
  const std::vector<std::int32_t> prompt = {3, 7, 1};
  const NoGrad no_grad;
  const auto next = [&](std::vector<std::int32_t> tokens) {
    return log_softmax(model->forward(from_vector(tokens, {1, std::ssize(tokens)})).select(0, 0).select(0, -1), -1)
        .to_vector<double>();
  };
  double best = -1e9;
  std::vector<std::int32_t> pair;
  const std::vector<double> first = next(prompt);
  for (std::int32_t a = 0; a < 11; ++a) {
    const std::vector<double> second = next({3, 7, 1, a});
    for (std::int32_t b = 0; b < 11; ++b) {
      const double both = first[static_cast<std::size_t>(a)] + second[static_cast<std::size_t>(b)];
      if (both > best) best = both, pair = {a, b};
    }
  }
  const std::vector<Beam> beams = beam_search(*model, kCPU, prompt, {.width = 11, .max_tokens = 2});
  EXPECT_EQ(beams[0].tokens, pair);
  EXPECT_NEAR(beams[0].log_probability, best, 1e-4);
  for (std::size_t i = 1; i < beams.size(); ++i) EXPECT_LE(beams[i].score, beams[i - 1].score);
}

TEST(BeamSearch, WiderIsNotWorse) {
  const auto model = small_model(small_config("gemma3"));
  const std::vector<std::int32_t> prompt = some_text(70, 97);
  const double one = beam_search(*model, kCPU, prompt, {.width = 1, .max_tokens = 20})[0].score;
  EXPECT_GE(beam_search(*model, kCPU, prompt, {.width = 8, .max_tokens = 20})[0].score, one - 1e-6);
}

TEST(BeamSearch, StopTokensEndTexts) {
  const auto model = small_model(small_config("llama"));
  const std::vector<std::int32_t> prompt = some_text(5, 97);
  const std::int32_t stop = beam_search(*model, kCPU, prompt, {.width = 1, .max_tokens = 10})[0].tokens[4];
  for (const Beam& beam : beam_search(*model, kCPU, prompt, {.width = 3, .max_tokens = 10, .stop_tokens = {stop}})) {
    EXPECT_EQ(std::count(beam.tokens.begin(), beam.tokens.end(), stop), 0);
    EXPECT_LE(beam.tokens.size(), 10u);
  }
}

TEST(BeamSearch, RefusesWhatItCannotSearch) {
  const auto model = small_model(small_config("llama"));
  EXPECT_THROW(beam_search(*model, kCPU, {}), Error);
  EXPECT_THROW(beam_search(*model, kCPU, std::vector<std::int32_t>{97}), IndexError);
  EXPECT_THROW(beam_search(*model, kCPU, some_text(250, 97)), Error);
  EXPECT_THROW(beam_search(*model, kCPU, some_text(3, 97), {.width = 0}), Error);
}

}  // namespace
}  // namespace etna::models
