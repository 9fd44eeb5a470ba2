#include <algorithm>
#include <cstdlib>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/models/generator.h>

#include "small_models.h"

// Speculative decoding with a draft model.
namespace etna::models {
namespace {

using testing::HasSubstr;

std::vector<std::int32_t> draft_text_of(Generator& generator, const std::vector<std::int32_t>& prompt,
                                        const GenerationOptions& options) {
  std::vector<std::int32_t> tokens;
  generator.generate(prompt, options, [&](std::int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

GenerationOptions draft_greedy(std::int64_t tokens) { return {.max_tokens = tokens, .sampling = {.temperature = 0}}; }

/// A smaller decoder with the vocabulary of small_config().
std::unique_ptr<Decoder> small_draft(std::int64_t context = 256, const std::string& architecture = "llama") {
  DecoderConfig config = small_config(architecture);
  config.width = 32;
  config.layers = 1;
  config.heads = config.kv_heads = 2;
  config.context = context;
  return small_model(config, 23);
}

TEST(Draft, EqualToTheModelGuessesEverythingRight) {
  const auto model = small_model(small_config("llama"));
  const GenerationOptions drawn{.max_tokens = 90, .sampling = {.temperature = 1, .seed = 11}};
  for (const GenerationOptions& options : {draft_greedy(90), drawn}) {
    Generator plain(*model, {.cache = {.dtype = f32}});
    const auto wanted = draft_text_of(plain, {5, 9, 2}, options);
    for (const std::int64_t guesses : {1, 4, 7}) {
      Generator generator(*model, {.guesses = guesses, .draft = model.get(), .cache = {.dtype = f32}});
      EXPECT_EQ(draft_text_of(generator, {5, 9, 2}, options), wanted) << guesses;
      EXPECT_GE(generator.times().guessed, 90 * guesses / (guesses + 1) - guesses) << guesses;
      EXPECT_EQ(generator.times().guessed_right, generator.times().guessed) << guesses;
    }
  }
}

TEST(Draft, LeavesTheTextAsItIs) {
  const auto model = small_model(small_config("llama"));
  for (const char* architecture : {"llama", "gpt2"}) {
    const auto draft = small_draft(256, architecture);
    for (const double temperature : {0.0, 0.6, 1.5}) {
      GenerationOptions options{.max_tokens = 150, .sampling = {.temperature = temperature, .seed = 5}};
      Generator plain(*model, {.cache = {.dtype = f32}});
      const std::vector<std::int32_t> prompt = some_text(70, 97), wanted = draft_text_of(plain, prompt, options);
      for (const std::int64_t guesses : {1, 3, 8}) {
        Generator generator(*model, {.guesses = guesses, .draft = draft.get(), .cache = {.dtype = f32}});
        EXPECT_EQ(draft_text_of(generator, prompt, options), wanted) << guesses;
        EXPECT_GT(generator.times().guessed, generator.times().guessed_right);
        // Both caches know the beginning of the second text.
        EXPECT_EQ(draft_text_of(generator, prompt, options), wanted) << guesses;
        EXPECT_EQ(generator.draft_cache()->stats().reused_tokens, 64);
        EXPECT_EQ(generator.draft_cache()->stats().in_use, 0);
        options.stop_tokens = {wanted[60]};
        const auto stop = std::find(wanted.begin(), wanted.end(), wanted[60]);
        EXPECT_EQ(draft_text_of(generator, prompt, options), std::vector<std::int32_t>(wanted.begin(), stop));
        options.stop_tokens.clear();
      }
    }
  }
}

/// Wrong guesses leave stale keys in the draft's cache. If it read them, its guesses would get worse.
TEST(Draft, ForgetsWhatWasNotAccepted) {
  const auto model = small_model(small_config("llama"));
  DecoderConfig config = small_config("llama");
  const auto draft = small_model(config);
  // Nearly the model: right most of the time.
  for (DecoderBlock& block : draft->blocks) {
    manual_seed(3);
    block.ffn->down.weight.detach().add_(randn(block.ffn->down.weight.shape()) * 0.02);
  }
  Generator plain(*model, {.cache = {.dtype = f32}}), far(*draft, {.cache = {.dtype = f32}});
  std::vector<std::int32_t> text = some_text(8, 97);
  const std::vector<std::int32_t> wanted = draft_text_of(plain, text, draft_greedy(200));
  // The draft's own prediction of each next token.
  text.insert(text.end(), wanted.begin(), wanted.end());
  const std::vector<std::int32_t> best = argmax(far.logits(text), -1).to(i32).to_vector<std::int32_t>();
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) equal += best[i + 7] == wanted[i] ? 1 : 0;
  ASSERT_GT(equal, 120);
  ASSERT_LT(equal, 200);
  Generator generator(*model, {.guesses = 1, .draft = draft.get(), .cache = {.dtype = f32}});
  EXPECT_EQ(draft_text_of(generator, some_text(8, 97), draft_greedy(200)), wanted);
  // A guess is right exactly where its own best token is the model's.
  std::int64_t guessed = 0, right = 0;
  for (std::size_t i = 1; i < wanted.size(); ++i) {
    ++guessed;
    if (best[i + 7] == wanted[i]) {
      ++right;
      ++i;  // the token after a right guess comes with it
    }
  }
  EXPECT_EQ(generator.times().guessed, guessed);
  EXPECT_EQ(generator.times().guessed_right, right);
}

TEST(Draft, ServesSequencesThatJoinAndLeave) {
  const auto model = small_model(small_config("qwen3"));
  const auto draft = small_draft();
  const std::vector<std::vector<std::int32_t>> prompts = {some_text(3, 97), some_text(70, 89), some_text(20, 83), {1}};
  const auto options = [](std::size_t i) {
    return GenerationOptions{.max_tokens = 20 + 15 * static_cast<std::int64_t>(i),
                             .sampling = {.temperature = i == 1 ? 0.8 : 0.0, .seed = i}};
  };
  std::vector<std::vector<std::int32_t>> alone;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Generator generator(*model, {.cache = {.dtype = f32}});
    alone.push_back(draft_text_of(generator, prompts[i], options(i)));
  }
  for (const Decoder* guesser : {draft.get(), model.get()}) {
    Generator generator(*model, {.slots = 3, .guesses = 3, .draft = guesser, .cache = {.tokens = 1024, .dtype = f32}});
    std::map<Generator::Id, std::size_t> which;
    std::vector<std::vector<std::int32_t>> together(prompts.size());
    std::size_t next = 0;
    for (int i = 0; i < 200; ++i) {
      if (next < prompts.size() && generator.has_room() && i >= 4 * static_cast<int>(next)) {
        which[generator.join(prompts[next], options(next))] = next;
        ++next;
      }
      for (const GeneratedToken& token : generator.step()) together[which.at(token.sequence)].push_back(token.token);
    }
    EXPECT_EQ(together, alone);
    EXPECT_GT(generator.times().guessed, 0);
    EXPECT_EQ(generator.draft_cache()->stats().in_use, 0);
  }
}

/// A long prompt is read in chunks, and steps without guesses come between them.
TEST(Draft, ReadsLongPromptsBetweenSteps) {
  const auto model = small_model(small_config("llama"));
  const std::vector<std::int32_t> prompt = some_text(130, 97);
  Generator plain(*model, {.cache = {.dtype = f32}});
  const auto wanted = draft_text_of(plain, prompt, draft_greedy(60));
  Generator generator(*model, {.slots = 2,
                               .guesses = 3,
                               .draft = model.get(),
                               .chunk = 32,
                               .cache = {.tokens = 512, .dtype = f32, .reuse_prefixes = false}});
  const Generator::Id first = generator.join(prompt, draft_greedy(60));
  std::vector<std::int32_t> text;
  std::vector<std::size_t> counts;
  const auto step = [&] {
    std::size_t count = 0;
    for (const GeneratedToken& t : generator.step()) {
      if (t.sequence != first) continue;
      text.push_back(t.token);
      ++count;
    }
    counts.push_back(count);
  };
  for (int i = 0; i < 4; ++i) step();
  EXPECT_THAT(counts, testing::Each(1u)) << "the draft has read 32 tokens a step";
  EXPECT_EQ(generator.times().guessed, 0);
  for (int i = 0; i < 4; ++i) step();
  EXPECT_EQ(counts.back(), 4u) << "all guesses are right";
  // Another prompt that is read does not stop the guesses of this one.
  generator.join(prompt, draft_greedy(60));
  for (int i = 0; i < 4; ++i) step();
  EXPECT_THAT(counts, testing::ElementsAre(1, 1, 1, 1, 1, 4, 4, 4, 0, 4, 4, 4)) << "its first token comes alone";
  while (generator.busy()) step();
  EXPECT_EQ(text, wanted);
  EXPECT_EQ(generator.draft_cache()->stats().in_use, 0);
}

/// What others guess leaves the prompts alone that are read in chunks meanwhile.
TEST(Draft, GuessesBesidePromptsThatAreRead) {
  const auto model = small_model(small_config("llama"));
  Generator plain(*model, {.cache = {.dtype = f32}});
  Generator generator(*model, {.slots = 2,
                               .guesses = 3,
                               .draft = model.get(),
                               .chunk = 32,
                               .cache = {.tokens = 512, .dtype = f32, .reuse_prefixes = false}});
  const std::vector<std::int32_t> prompt = some_text(100, 97);
  generator.join(some_text(3, 97), draft_greedy(100));
  for (int i = 0; i < 3; ++i) generator.step();
  const Generator::Id id = generator.begin(prompt, draft_greedy(40));
  std::vector<std::int32_t> text;
  while (generator.busy())
    for (const GeneratedToken& t : generator.step())
      if (t.sequence == id) text.push_back(t.token);
  EXPECT_EQ(text, draft_text_of(plain, prompt, draft_greedy(40)));
  EXPECT_EQ(generator.times().guessed_right, generator.times().guessed);
}

/// A sequence with penalties takes one token a step, and the others with it; the draft reads those tokens later.
TEST(Draft, CatchesUpWithTokensThatItDidNotGuess) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model,
                      {.slots = 2, .guesses = 3, .draft = model.get(), .cache = {.tokens = 1024, .dtype = f32}});
  GenerationOptions penalized = draft_greedy(30);
  penalized.sampling.repetition_penalty = 1.5;
  std::vector<std::int32_t> text;
  const Generator::Id id = generator.join(some_text(10, 97), draft_greedy(120));
  generator.join(some_text(12, 89), penalized);
  for (std::vector<GeneratedToken> tokens; !(tokens = generator.step()).empty();)
    for (const GeneratedToken& t : tokens)
      if (t.sequence == id) text.push_back(t.token);
  Generator plain(*model, {.cache = {.dtype = f32}});
  EXPECT_EQ(text, draft_text_of(plain, some_text(10, 97), draft_greedy(120)));
  EXPECT_GT(generator.times().guessed, 50);
  EXPECT_EQ(generator.times().guessed_right, generator.times().guessed);
}

TEST(Draft, GuessesUpToTheContextsEnd) {
  const auto model = small_model(small_config("llama"));
  const auto draft = small_draft();
  Generator plain(*model), generator(*model, {.guesses = 6, .draft = draft.get()});
  const auto wanted = draft_text_of(plain, some_text(6, 97), draft_greedy(1000));
  EXPECT_EQ(draft_text_of(generator, some_text(6, 97), draft_greedy(1000)), wanted);
  EXPECT_EQ(std::ssize(wanted), 256 - 6 + 1);
}

TEST(Draft, WithAShorterContextReadsTheEndOfTheText) {
  DecoderConfig config = small_config("llama");
  config.context = 1024;
  const auto model = small_model(config);
  Generator plain(*model, {.cache = {.dtype = f32}});
  for (const std::int64_t length : {10, 130}) {
    const std::vector<std::int32_t> prompt = some_text(length, 97),
                                    wanted = draft_text_of(plain, prompt, draft_greedy(400));
    for (const std::int64_t context : {14, 64, 100}) {
      const auto draft = small_draft(context);
      Generator generator(*model, {.guesses = 5, .draft = draft.get(), .cache = {.dtype = f32}});
      EXPECT_EQ(draft_text_of(generator, prompt, draft_greedy(400)), wanted) << context;
      EXPECT_GT(generator.times().guessed, 400);
    }
  }
}

TEST(Draft, GuessesForEndlessTexts) {
  for (const char* architecture : {"llama", "gpt2"}) {
    DecoderConfig config = small_config(architecture);
    config.context = 320;
    const auto model = small_model(config);
    const auto draft = small_draft(100);
    GenerationOptions options = draft_greedy(900);
    options.endless = true;
    Generator plain(*model, {.cache = {.dtype = f32}});
    Generator generator(*model, {.guesses = 4, .draft = draft.get(), .cache = {.dtype = f32}});
    EXPECT_EQ(draft_text_of(generator, some_text(30, 97), options), draft_text_of(plain, some_text(30, 97), options));
    EXPECT_GT(generator.times().guessed, 400);
  }
}

TEST(Draft, TakesACacheInQ8) {
  DecoderConfig config = small_config("llama");
  config.head_size = 32;
  const auto model = small_model(config);
  const auto draft = small_draft();  // heads of 16, which Q8_0 cannot hold
  Generator plain(*model, {.cache = {.dtype = u8}});
  Generator generator(*model, {.guesses = 3, .draft = draft.get(), .cache = {.dtype = u8}});
  EXPECT_EQ(draft_text_of(generator, some_text(5, 97), draft_greedy(60)),
            draft_text_of(plain, some_text(5, 97), draft_greedy(60)));
}

TEST(Draft, VulkanWritesWhatItWritesAlone) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  const auto model = small_model(small_config("llama"));
  const auto draft = small_draft();
  model->to(kVulkan);
  draft->to(kVulkan);
  const GenerationOptions drawn{.max_tokens = 40, .sampling = {.temperature = 0.9, .seed = 4}};
  for (const GenerationOptions& options : {draft_greedy(40), drawn}) {
    Generator plain(*model, {.device = kVulkan, .cache = {.dtype = f32}});
    const auto wanted = draft_text_of(plain, some_text(40, 97), options);
    for (const Decoder* guesser : {draft.get(), model.get()}) {
      Generator generator(*model, {.device = kVulkan, .guesses = 3, .draft = guesser, .cache = {.dtype = f32}});
      EXPECT_EQ(draft_text_of(generator, some_text(40, 97), options), wanted);
      EXPECT_TRUE(guesser == draft.get() || generator.times().guessed_right == generator.times().guessed);
    }
  }
}

/// The message of the error that a generator with this draft throws.
std::string draft_refusal(const Decoder& model, const GeneratorOptions& options) {
  try {
    const Generator generator(model, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// A prompt that could not be read leaves its slot to others.
TEST(Draft, OnAnotherDeviceFailsAndLeavesTheSlot) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  const auto model = small_model(small_config("llama"));
  const auto draft = small_draft();
  draft->to(kVulkan);
  Generator generator(*model, {.guesses = 2, .draft = draft.get()});
  const Generator::Id id = generator.join(some_text(9, 97));
  while (generator.busy()) generator.step();
  EXPECT_EQ(generator.stopped(id), StopReason::failed);
  EXPECT_TRUE(generator.has_room());
  EXPECT_EQ(generator.cache().stats().in_use, 0);
  EXPECT_EQ(generator.draft_cache()->stats().in_use, 0);
}

TEST(Draft, RefusesWhatDoesNotGoTogether) {
  const auto model = small_model(small_config("llama"));
  DecoderConfig other = small_config("llama");
  other.vocabulary = 98;
  const auto wide = small_model(other), tiny = small_draft(13);
  EXPECT_THAT(draft_refusal(*model, {.guesses = 2, .draft = wide.get()}),
              HasSubstr("the draft has 98 tokens in its vocabulary, the model 97"));
  EXPECT_THAT(draft_refusal(*model, {.guesses = 5, .draft = tiny.get()}),
              HasSubstr("a context of 13 has no room for 5 guesses; ask for at most 4"));
  EXPECT_EQ(draft_refusal(*model, {.guesses = 4, .draft = tiny.get()}), "");
  EXPECT_THAT(draft_refusal(*model, {.draft = model.get()}), HasSubstr("guesses is 0"));
}

}  // namespace
}  // namespace etna::models
