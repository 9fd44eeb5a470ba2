#include <etna/train/text_training.h>

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/nn/nn.h>
#include <etna/optim/optim.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "train_report/variable.h"

namespace etna::training {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kWords = 11;

TextSplit split_of(std::int64_t tokens) {
  TextSplit split{.ids = {}, .words = tokens};
  for (std::int64_t i = 0; i < tokens; ++i) split.ids.push_back(static_cast<std::int32_t>(i * i % kWords));
  return split;
}

/// A bigram model, which remembers how often it was asked.
struct Bigrams {
  nn::Embedding logits{kWords, kWords};
  std::int64_t forgotten = 0, batches = 0;
  std::set<std::int64_t> lengths = {};

  Bigrams() { nn::init::zeros_(logits.weight); }
  OnStreams on_streams() {
    return [this](std::int64_t, Device) {
      return StreamModel{.module = &logits,
                         .loss =
                             [this](const Tensor& x, const Tensor& y) {
                               ++batches;
                               lengths.insert(x.size(1));
                               return cross_entropy(logits(x).view({-1, kWords}), y.view({-1}));
                             },
                         .forget = [this] { ++forgotten; }};
    };
  }
};

Recipe recipe_of(std::int64_t epochs) {
  Recipe recipe;
  recipe.batch = 2;
  recipe.epochs = epochs;
  recipe.lr = 0.1;
  recipe.warmup = 0;
  return recipe;
}

std::vector<float> weights_after(const Recipe& recipe, TextRunOptions options) {
  Bigrams model;
  const TextSplit split = split_of(100);
  TextRun run(model.on_streams(), split, recipe, kCPU, options);
  TrainingLoopOptions loop_options = run.loop_options();
  loop_options.progress = false;
  TrainingLoop loop(run.step(), loop_options);
  run.train(loop);
  EXPECT_EQ(model.forgotten, recipe.epochs);
  EXPECT_EQ(run.summary(loop).steps, loop_options.steps);
  EXPECT_EQ(run.summary(loop).epoch_loss.size(), static_cast<std::size_t>(recipe.epochs));
  return model.logits.weight.to_vector<float>();
}

TEST(TextRun, LearnsTheSameCapturedEagerAndResident) {
  const std::vector<float> captured = weights_after(recipe_of(3), {.seq = 8});
  EXPECT_EQ(captured, weights_after(recipe_of(3), {.seq = 8, .captured = false}));
  EXPECT_EQ(captured, weights_after(recipe_of(3), {.seq = 8, .resident = true}));
  EXPECT_NE(captured, weights_after(recipe_of(2), {.seq = 8}));
}

TEST(TextRun, GoesOnWhereItStopped) {
  Bigrams whole, parts;
  const TextSplit split = split_of(400);
  const TextRunOptions options = {.seq = 16, .seq_spread = 8};
  TextRun through(whole.on_streams(), split, recipe_of(4), kCPU, options);
  for (int i = 0; i < 20; ++i) through.advance();
  const TemporaryFolder folder;
  {
    Bigrams first;
    TextRun run(first.on_streams(), split, recipe_of(4), kCPU, options);
    for (int i = 0; i < 14; ++i) run.advance();
    save(folder / "run.safetensors", run.loop_options().items);
  }
  TextRun run(parts.on_streams(), split, recipe_of(4), kCPU, options);
  load(folder / "run.safetensors", run.loop_options().items);
  run.resume();
  while (run.step() < 20) run.advance();
  EXPECT_TRUE(equal(parts.logits.weight, whole.logits.weight));
  EXPECT_GT(whole.lengths.size(), 1u);
  EXPECT_GE(through.steps_of_all_kinds(), 2);
}

TEST(TextRun, RefusesWhatDoesNotFit) {
  Bigrams model;
  const TextSplit split = split_of(40);
  Recipe recipe = recipe_of(1);
  recipe.accumulation = 5;
  EXPECT_THAT([&] { TextRun(model.on_streams(), split, recipe, kCPU, {.seq = 8}); },
              ThrowsMessage<FormatError>(HasSubstr("a step accumulates 5; try fewer")));
  EXPECT_THAT(
      [&] { TextRun(model.on_streams(), split, recipe_of(1), kCPU, {.seq = 16, .seq_spread = 8, .resident = true}); },
      ThrowsMessage<SettingError>(HasSubstr("--resident does not go with seq_spread")));
  EXPECT_THAT([&] { TextSplit().streams(1, 4); }, ThrowsMessage<FormatError>(HasSubstr("an empty split")));
}

TEST(TextEvaluator, MeasuresAModelThatKnowsNothing) {
  Bigrams model;
  const TextSplit split = split_of(50);
  TextEvaluator evaluator(model.on_streams(), split, {.seq = 8, .streams = 100});
  EXPECT_NEAR(evaluator.loss(), std::log(static_cast<double>(kWords)), 1e-5);
  EXPECT_NEAR(evaluator.loss(), std::log(static_cast<double>(kWords)), 1e-5);
  EXPECT_EQ(model.forgotten, 2);
}

TEST(TextCorpus, ThatIsNotNamedIsPartOfTheLibrary) {
  const Variable none("ETNA_DATA", nullptr);
  const TextCorpus corpus = open_text_corpus("", "");
  EXPECT_TRUE(corpus.embedded);
  EXPECT_GT(corpus.vocabulary(), 1000);
  EXPECT_TRUE(corpus.of_words());
  EXPECT_THAT(corpus.str(), HasSubstr(" training, "));
  RunSummary summary;
  corpus.set_perplexities(std::log(8.0), std::log(9.0), summary);
  EXPECT_NEAR(*summary.valid_perplexity, 8, 1e-9);
  EXPECT_NEAR(*summary.test_perplexity, 9, 1e-9);
  EXPECT_FALSE(summary.valid_word_perplexity);
}

TEST(DrawToken, TakesTheMostProbableOrDraws) {
  const std::vector<float> logits = {0, 3, 2, -1};
  std::uint64_t state = 7;
  EXPECT_EQ(draw_token(logits, 0, 0, state), 1);
  EXPECT_EQ(draw_token(logits, 1, 1, state), 1);
  std::set<std::int32_t> drawn;
  for (int i = 0; i < 200; ++i) drawn.insert(draw_token(logits, 1, 2, state));
  EXPECT_EQ(drawn, (std::set<std::int32_t>{1, 2}));
}

}  // namespace
}  // namespace etna::training
