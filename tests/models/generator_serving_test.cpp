#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/memory.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>

#include "small_models.h"

// What a server needs of a Generator: prompts that are read between steps, and errors that end one sequence only.
namespace etna::models {
namespace {

using testing::HasSubstr;
using Prompt = std::vector<std::int32_t>;

GenerationOptions serving_greedy(std::int64_t tokens) { return {.max_tokens = tokens, .sampling = {.temperature = 0}}; }

std::map<Generator::Id, Prompt> serve_all(Generator& generator) {
  std::map<Generator::Id, Prompt> texts;
  while (generator.busy())
    for (const GeneratedToken& t : generator.step()) texts[t.sequence].push_back(t.token);
  return texts;
}

Prompt alone_text(const Decoder& model, const Prompt& prompt, const GenerationOptions& options) {
  Generator generator(model);
  Prompt text;
  generator.generate(prompt, options, [&](std::int32_t token) {
    text.push_back(token);
    return true;
  });
  return text;
}

/// A model to which one token means nothing but NaN.
std::unique_ptr<Decoder> model_with_bad_token(std::int32_t token) {
  auto model = small_model(small_config("llama"));
  model->token_embedding.weight.detach().select(0, token).fill_(std::numeric_limits<double>::quiet_NaN());
  return model;
}

TEST(GeneratorServing, ALongPromptDoesNotStopOthers) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model, {.slots = 2, .chunk = 16, .cache = {.tokens = 512}});
  const Prompt first = some_text(5, 97), second = some_text(100, 97);
  const Generator::Id a = generator.join(first, serving_greedy(40));
  std::map<Generator::Id, Prompt> texts;
  const auto step = [&] {
    const std::vector<GeneratedToken> tokens = generator.step();
    for (const GeneratedToken& t : tokens) texts[t.sequence].push_back(t.token);
    return tokens;
  };
  step();
  const Generator::Id b = generator.begin(second, serving_greedy(10));
  EXPECT_EQ(generator.running(), 2);
  for (int i = 0; i < 6; ++i) {  // 96 of 100 tokens
    const std::vector<GeneratedToken> tokens = step();
    ASSERT_EQ(tokens.size(), 1u) << "step " << i;
    EXPECT_EQ(tokens[0].sequence, a);
    EXPECT_EQ(generator.times().prompt_tokens, 5 + 16 * (i + 1));
  }
  EXPECT_EQ(step().size(), 2u);
  for (const auto& [id, text] : serve_all(generator)) texts[id].insert(texts[id].end(), text.begin(), text.end());
  EXPECT_EQ(texts[a], alone_text(*model, first, serving_greedy(40)));
  EXPECT_EQ(texts[b], alone_text(*model, second, serving_greedy(10)));
  EXPECT_FALSE(generator.busy());
}

TEST(GeneratorServing, PromptsTakeTurns) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model, {.slots = 3, .chunk = 16, .cache = {.tokens = 1024}});
  generator.begin(some_text(200, 97), serving_greedy(1));
  const Generator::Id small = generator.begin(some_text(20, 97), serving_greedy(1));
  const Generator::Id tiny = generator.begin(Prompt{3}, serving_greedy(1));
  int steps = 0;
  for (; generator.stopped(small) == StopReason::none; ++steps) generator.step();
  EXPECT_LE(steps, 4);
  EXPECT_EQ(generator.stopped(tiny), StopReason::max_tokens);
  EXPECT_EQ(generator.running(), 1);
  while (generator.busy()) generator.step();
  EXPECT_EQ(generator.times().prompt_tokens, 221);
}

TEST(GeneratorServing, StepsReturnNothingWhilePromptsAreRead) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model, {.chunk = 8});
  EXPECT_FALSE(generator.busy());
  EXPECT_TRUE(generator.step().empty());
  generator.begin(some_text(24, 97), serving_greedy(2));
  EXPECT_FALSE(generator.has_room());
  EXPECT_TRUE(generator.step().empty());
  EXPECT_TRUE(generator.step().empty());
  EXPECT_TRUE(generator.busy());
  EXPECT_EQ(generator.step().size(), 1u);
}

TEST(GeneratorServing, BeginRefusesWhatJoinRefuses) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model, {.cache = {.tokens = 128}});
  EXPECT_THROW(generator.begin({}, {}), Error);
  EXPECT_THROW(generator.begin(Prompt{97}, {}), IndexError);
  EXPECT_THROW(generator.begin(Prompt(300, 1), {}), Error);
  EXPECT_THROW(generator.begin(Prompt(200, 1), {}), CacheFull);
  EXPECT_THROW(generator.begin(Prompt{1}, {.logprobs = 21}), Error);
  EXPECT_THROW(generator.begin(Prompt{1}, {.logprobs = -2}), Error);
  EXPECT_FALSE(generator.busy());
  EXPECT_EQ(generator.cache().stats().in_use, 0);
  generator.begin(Prompt{1}, {});
  EXPECT_THROW(generator.begin(Prompt{1}, {}), Error);
}

TEST(GeneratorServing, ABadPromptEndsItsSequenceOnly) {
  const auto model = model_with_bad_token(50);
  Prompt good = some_text(20, 40), bad = some_text(70, 40);
  bad[60] = 50;
  Generator generator(*model, {.slots = 3, .chunk = 32, .cache = {.tokens = 256}});
  const Generator::Id a = generator.begin(good, serving_greedy(30)), b = generator.begin(bad, serving_greedy(30));
  const Prompt text = serve_all(generator)[a];
  EXPECT_EQ(generator.stopped(a), StopReason::max_tokens);
  EXPECT_EQ(generator.error_of(a), "");
  EXPECT_EQ(generator.stopped(b), StopReason::failed);
  EXPECT_THAT(generator.error_of(b), HasSubstr("NaN or infinite"));
  EXPECT_EQ(text, alone_text(*model, good, serving_greedy(30)));
  EXPECT_THROW(generator.join(bad, serving_greedy(30)), SuspiciousWeights);
  // The blocks of failed sequences serve others, and are no prefixes.
  EXPECT_EQ(generator.cache().stats().in_use, 0);
  for (int i = 0; i < 4; ++i) {
    Prompt other = some_text(200, 40);
    other[0] = i;
    EXPECT_EQ(generator.reused(generator.begin(bad, serving_greedy(1))), 0);
    serve_all(generator);
    const Generator::Id c = generator.begin(other, serving_greedy(30));
    EXPECT_EQ(serve_all(generator)[c], alone_text(*model, other, serving_greedy(30)));
  }
}

TEST(GeneratorServing, LeavesWhileItsPromptIsRead) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model, {.slots = 2, .chunk = 64, .cache = {.tokens = 512}});
  const Generator::Id a = generator.begin(some_text(200, 97), serving_greedy(5));
  generator.step();
  generator.step();
  generator.leave(a);
  EXPECT_FALSE(generator.busy());
  EXPECT_EQ(generator.stopped(a), StopReason::left);
  EXPECT_EQ(generator.cache().stats().in_use, 0);
  // What was read is there for the next one.
  const Generator::Id b = generator.begin(some_text(200, 97), serving_greedy(5));
  EXPECT_EQ(generator.reused(b), 128);
  EXPECT_EQ(serve_all(generator)[b], alone_text(*model, some_text(200, 97), serving_greedy(5)));
  EXPECT_EQ(generator.reused(b), 128);
}

TEST(GeneratorServing, ForgetsEndedSequences) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model);
  const Generator::Id a = generator.begin(Prompt{1}, serving_greedy(2));
  generator.forget(a);
  EXPECT_EQ(generator.stopped(a), StopReason::none) << "it still runs";
  serve_all(generator);
  EXPECT_EQ(generator.stopped(a), StopReason::max_tokens);
  generator.forget(a);
  generator.forget(a);
  generator.forget(77);
  EXPECT_THROW(generator.stopped(a), IndexError);
  EXPECT_THROW(generator.reused(a), IndexError);
  EXPECT_THROW(generator.error_of(77), IndexError);
}

TEST(GeneratorServing, GivesTheLogProbabilitiesOfTheModel) {
  const auto model = small_model(small_config("llama"));
  const Prompt prompt = some_text(30, 97);
  for (const std::int64_t count : {0, 3, 20}) {
    Generator generator(*model, {.slots = 2, .cache = {.tokens = 512, .dtype = f32}});
    GenerationOptions options{.max_tokens = 12, .logprobs = count};
    options.sampling.temperature = 1.5;
    options.sampling.repetition_penalty = 1.3;
    options.sampling.logit_bias = {{4, 3.f}};
    const Generator::Id id = generator.begin(prompt, options), other = generator.begin(prompt, serving_greedy(12));
    std::vector<GeneratedToken> tokens;
    Prompt text = prompt;
    while (generator.busy()) {
      for (const GeneratedToken& t : generator.step()) {
        if (t.sequence == other) {
          EXPECT_TRUE(t.top.empty());
          EXPECT_EQ(t.logprob, 0);
          continue;
        }
        tokens.push_back(t);
        text.push_back(t.token);
      }
    }
    ASSERT_EQ(tokens.size(), 12u);
    const Tensor all = log_softmax(generator.logits(text), -1);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::vector<float> row = all.select(0, static_cast<std::int64_t>(prompt.size() + i) - 1).to_vector<float>();
      EXPECT_NEAR(tokens[i].logprob, row[static_cast<std::size_t>(tokens[i].token)], 1e-4);
      ASSERT_EQ(std::ssize(tokens[i].top), count);
      for (std::size_t k = 0; k < tokens[i].top.size(); ++k) {
        const auto [token, logprob] = tokens[i].top[k];
        EXPECT_NEAR(logprob, row[static_cast<std::size_t>(token)], 1e-4);
        if (k > 0) {
          EXPECT_LE(logprob, tokens[i].top[k - 1].second);
        }
      }
      if (count > 0) {
        EXPECT_NEAR(tokens[i].top[0].second, *std::max_element(row.begin(), row.end()), 1e-4);
      }
    }
    EXPECT_NE(generator.stopped(id), StopReason::failed);
  }
}

TEST(GeneratorServing, ScoresATextAsItsLogitsDo) {
  const auto model = small_model(small_config("llama"));
  const Prompt text = some_text(300, 97);
  for (const std::int64_t chunk : {0, 7}) {
    Generator generator(*model, {.chunk = chunk, .cache = {.tokens = 512}});
    const std::vector<float> all = log_softmax(generator.logits(text).to(f32), -1).to_vector<float>();
    const auto vocabulary = static_cast<std::size_t>(model->config.vocabulary);
    const std::int64_t free = generator.cache().stats().in_use;
    for (const std::int64_t top : {0, 3}) {
      const std::vector<GeneratedToken> tokens = generator.logprobs(text, top);
      ASSERT_EQ(tokens.size(), text.size() - 1);
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const float* row = all.data() + i * vocabulary;
        EXPECT_EQ(tokens[i].token, text[i + 1]);
        EXPECT_NEAR(tokens[i].logprob, row[text[i + 1]], 1e-4) << i;
        ASSERT_EQ(std::ssize(tokens[i].top), top);
        if (top == 0) continue;
        EXPECT_NEAR(tokens[i].top[0].second, *std::max_element(row, row + vocabulary), 1e-4);
        EXPECT_NEAR(tokens[i].top[2].second, row[tokens[i].top[2].first], 1e-4);
        EXPECT_GE(tokens[i].top[1].second, tokens[i].top[2].second);
      }
    }
    EXPECT_EQ(generator.cache().stats().in_use, free);
    EXPECT_TRUE(generator.logprobs(Prompt{3}).empty());
    EXPECT_TRUE(generator.logprobs(Prompt{}).empty());
    EXPECT_THROW(generator.logprobs(Prompt{1, 97}), IndexError);
    EXPECT_THROW(generator.logprobs(text, 21), Error);
    EXPECT_THROW(generator.logprobs(some_text(600, 97)), CacheFull);
    EXPECT_EQ(generator.cache().stats().in_use, free);
  }
  const auto bad = model_with_bad_token(5);
  Generator generator(*bad);
  EXPECT_THROW(generator.logprobs(Prompt{1, 5, 2}), SuspiciousWeights);
}

TEST(GeneratorServing, ScoresATextBetweenStepsOfOthers) {
  const auto model = small_model(small_config("llama"));
  const Prompt text = some_text(200, 97), prompt = some_text(20, 97);
  const GenerationOptions options{.max_tokens = 30, .sampling = {.temperature = 0}};
  Generator generator(*model, {.chunk = 64, .cache = {.tokens = 512}});
  const std::vector<GeneratedToken> wanted = generator.logprobs(text, 2);
  Prompt alone, beside;
  generator.generate(prompt, options, [&](std::int32_t token) {
    alone.push_back(token);
    return true;
  });
  generator.begin(prompt, options);
  TextLogprobs scoring(generator, text, 2);
  int chunks = 1;
  for (; scoring.read(); ++chunks)
    for (const GeneratedToken& t : generator.step()) beside.push_back(t.token);
  EXPECT_EQ(chunks, 4);
  EXPECT_FALSE(scoring.read());
  while (generator.busy())
    for (const GeneratedToken& t : generator.step()) beside.push_back(t.token);
  EXPECT_EQ(beside, alone);
  const std::vector<GeneratedToken> tokens = scoring.take();
  ASSERT_EQ(tokens.size(), wanted.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i].logprob, wanted[i].logprob) << i;
    EXPECT_EQ(tokens[i].top, wanted[i].top) << i;
  }
  // Its blocks are free again where it is not read to the end, and are not there for others before.
  const std::int64_t before = generator.cache().stats().in_use;
  {
    TextLogprobs half(generator, text);
    EXPECT_TRUE(half.read());
    EXPECT_EQ(generator.cache().stats().in_use, before + 4);
    EXPECT_THROW(TextLogprobs(generator, some_text(300, 97)), CacheFull);
  }
  EXPECT_EQ(generator.cache().stats().in_use, before);
}

TEST(GeneratorServing, ASmallVocabularyHasFewerAlternatives) {
  DecoderConfig config = small_config("llama");
  config.vocabulary = 7;
  const auto model = small_model(config);
  Generator generator(*model);
  generator.begin(Prompt{1}, {.max_tokens = 3, .logprobs = 20});
  while (generator.busy())
    for (const GeneratedToken& t : generator.step()) EXPECT_EQ(t.top.size(), 7u);
}

TEST(GeneratorServing, WarmingUpLeavesNoTrace) {
  const auto model = small_model(small_config("llama")), draft = small_model(small_config("llama"), 8);
  const Prompt prompt = some_text(70, 97);
  GenerationOptions sampled{.max_tokens = 20};
  const Prompt greedy_text = alone_text(*model, prompt, serving_greedy(20)), text = alone_text(*model, prompt, sampled);
  for (const std::int64_t guesses : {0, 2}) {
    GeneratorOptions options{.slots = 3, .guesses = guesses};
    if (guesses > 0) options.draft = draft.get();
    Generator generator(*model, options);
    generator.warm_up();
    EXPECT_EQ(generator.cache().stats().cached + generator.cache().stats().in_use, 0);
    EXPECT_EQ(generator.cache().stats().prompt_tokens, 0);
    EXPECT_EQ(generator.times().tokens + generator.times().prompt_tokens + generator.times().guessed, 0);
    EXPECT_EQ(generator.times().prompt_seconds + generator.times().decode_seconds, 0);
    Generator::Id id = generator.begin(prompt, serving_greedy(20));
    EXPECT_THROW(generator.warm_up(), Error);
    EXPECT_EQ(serve_all(generator)[id], greedy_text);
    const std::int64_t cached = generator.cache().stats().cached;
    EXPECT_GT(cached, 0);
    generator.warm_up();
    EXPECT_EQ(generator.cache().stats().cached, cached);
    EXPECT_EQ(generator.cache().stats().evictions, 0);
    id = generator.begin(prompt, sampled);
    EXPECT_EQ(serve_all(generator)[id], text);
  }
}

/// The steps of the first sequence are replayed: they take no memory, not even at the first one.
TEST(GeneratorServing, WarmingUpCapturesTheFirstSteps) {
  const auto model = small_model(small_config("llama"));
  for (const double temperature : {0.0, 0.8}) {
    Generator generator(*model);
    generator.warm_up();
    generator.join(some_text(10, 97), {.max_tokens = 100, .sampling = {.temperature = temperature}});
    const auto allocations = [] { return memory_stats(kCPU).hits + memory_stats(kCPU).misses; };
    generator.step();  // what it queues ahead is written
    const std::uint64_t before = allocations();
    for (int i = 0; i < 20; ++i) generator.step();
    EXPECT_EQ(allocations(), before);
  }
}

}  // namespace
}  // namespace etna::models
