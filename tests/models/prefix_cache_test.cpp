#include <algorithm>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/models/generator.h>
#include <etna/tensor/io/internal/content_hash.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

#include "runner/run_tests.h"
#include "small_models.h"

// Prompts that begin as earlier texts did.
namespace etna::models {
namespace {

using testing::HasSubstr;
using ChatText = std::vector<std::int32_t>;

GenerationOptions chat_greedy(std::int64_t tokens) { return {.max_tokens = tokens, .sampling = {.temperature = 0}}; }

/// Generates an answer and appends it to the text. @return tokens found in the cache
std::int64_t answer(Generator& generator, ChatText& text, std::int64_t tokens) {
  const Generator::Id id = generator.begin(text, chat_greedy(tokens));
  while (generator.busy())
    for (const GeneratedToken& t : generator.step()) text.push_back(t.token);
  return generator.reused(id);
}

ChatText user_says(std::int64_t turn, std::int64_t count) {
  ChatText tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>((i * i + 5 * turn + 3) % 97));
  return tokens;
}

std::unique_ptr<Decoder> chat_model(const std::string& architecture, std::int64_t context = 2048) {
  DecoderConfig config = small_config(architecture);
  config.context = context;
  return small_model(config);
}

/// Windows of layers (Gemma 2 and 3) do not matter: blocks hold all positions.
TEST(PrefixCache, EachTurnReusesAllFullBlocksOfTheTurnsBefore) {
  for (const char* architecture : {"llama", "gemma2", "gemma3", "gpt2"}) {
    const auto model = chat_model(architecture);
    Generator generator(*model, {.cache = {.dtype = f32}}),
        afresh(*model, {.cache = {.dtype = f32, .reuse_prefixes = false}});
    ChatText text, wanted;
    for (std::int64_t turn = 0; turn < 10; ++turn) {
      // All tokens but the last generated one have been read.
      const std::int64_t read = std::max<std::int64_t>(0, std::ssize(text) - 1);
      for (ChatText* t : {&text, &wanted}) {
        const ChatText said = user_says(turn, 50);
        t->insert(t->end(), said.begin(), said.end());
      }
      EXPECT_EQ(answer(generator, text, 43), read / kCacheBlock * kCacheBlock) << architecture << ", turn " << turn;
      EXPECT_EQ(answer(afresh, wanted, 43), 0);
      ASSERT_EQ(text, wanted) << architecture << ", turn " << turn;
    }
    EXPECT_EQ(generator.cache().stats().in_use, 0);
  }
}

class PrefixBits : public OnDevice {};

/// Whether the beginning of a prompt was read with it, when it was the prompt before, or with another one.
TEST_P(PrefixBits, DoNotDependOnWhoReadThePrefix) {
  const ChatText prompt = user_says(0, 2 * kCacheBlock + 9);
  ChatText other(prompt.begin(), prompt.begin() + kCacheBlock + 6);
  other.push_back(1);
  for (const std::string& architecture : tried<std::string>({"llama", "gemma3", "gpt2"}, 3)) {
    const auto model = chat_model(architecture);
    model->to(GetParam());
    const auto logprobs = [&](Generator& generator, const ChatText& text) {
      std::vector<double> all;
      generator.begin(text, {.max_tokens = 8, .sampling = {.temperature = 0}, .logprobs = 0});
      while (generator.busy())
        for (const GeneratedToken& token : generator.step()) all.push_back(token.logprob);
      return all;
    };
    const GeneratorOptions options{.device = GetParam(), .cache = {.dtype = f32}};
    Generator again(*model, options), behind(*model, options);
    const std::vector<double> afresh = logprobs(again, prompt);
    EXPECT_EQ(afresh.size(), 8U);
    EXPECT_EQ(logprobs(again, prompt), afresh) << architecture;
    EXPECT_EQ(again.cache().stats().reused_tokens, 2 * kCacheBlock);
    // On a GPU, the number of rows in between chooses kernels.
    if (!GetParam().is_cpu()) continue;
    logprobs(behind, other);
    EXPECT_EQ(logprobs(behind, prompt), afresh) << architecture;
    EXPECT_EQ(behind.cache().stats().reused_tokens, kCacheBlock);
  }
}

ETNA_ON_EVERY_DEVICE(PrefixBits);

TEST(PrefixCache, SharesThePromptOfASequenceThatRuns) {
  const auto model = chat_model("llama");
  Generator generator(*model, {.slots = 3});
  ChatText prompt = user_says(1, 200);
  const Generator::Id a = generator.begin(prompt, chat_greedy(300));
  generator.step();
  generator.step();
  const Generator::Id b = generator.begin(prompt, chat_greedy(20));
  EXPECT_EQ(generator.reused(a), 0);
  EXPECT_EQ(generator.reused(b), 192);
  prompt.back() = 2;
  const Generator::Id c = generator.begin(prompt, chat_greedy(20));
  EXPECT_EQ(generator.reused(c), 192);
  EXPECT_EQ(generator.cache().stats().in_use, 3 + 3) << "three blocks are shared, each has one of its own";
  std::map<Generator::Id, ChatText> texts;
  while (generator.busy())
    for (const GeneratedToken& t : generator.step()) texts[t.sequence].push_back(t.token);
  for (const Generator::Id id : {b, c}) {
    Generator alone(*model);
    ChatText whole = id == c ? prompt : user_says(1, 200);
    answer(alone, whole, 20);
    EXPECT_EQ(ChatText(whole.begin() + 200, whole.end()), texts[id]);
  }
  EXPECT_EQ(generator.cache().stats().in_use, 0);
}

/// A chat of 8,000 tokens in ten turns of a user's 600 tokens and an answer of 200. Only the last turn's tokens are
/// read, but they attend to all others: the properties say how long a first turn of as many tokens takes.
TEST(PrefixCache, TheTenthTurnReadsOnlyItsOwnTokens) {
  if (!test_all()) GTEST_SKIP() << "ETNA_TEST_ALL is not 1: it measures times";
  DecoderConfig config = small_config("llama");
  config.context = 8192;
  config.width = config.feed_forward = 512;
  config.heads = 8;
  config.head_size = config.rope.size = 64;
  config.layers = 4;
  const auto model = small_model(config);
  Generator generator(*model);
  ChatText text;
  const auto seconds_of = [](Generator& generator, const ChatText& prompt) {
    const double before = generator.times().prompt_seconds;
    generator.leave(generator.join(prompt, chat_greedy(1)));
    return generator.times().prompt_seconds - before;
  };
  for (std::int64_t turn = 0; turn < 9; ++turn) {
    const ChatText said = user_says(turn, 600);
    text.insert(text.end(), said.begin(), said.end());
    answer(generator, text, 200);
  }
  // The least of three, each with other tokens at its end.
  double tenth = 1e9, first = 1e9, again = 1e9;
  Generator afresh(*model, {.cache = {.reuse_prefixes = false}});
  for (std::int64_t i = 0; i < 3; ++i) {
    const ChatText said = user_says(20 + i, 600);
    ChatText prompt = text;
    prompt.insert(prompt.end(), said.begin(), said.end());
    tenth = std::min(tenth, seconds_of(generator, prompt));
    first = std::min(first, seconds_of(generator, said));
    again = std::min(again, seconds_of(afresh, prompt));
  }
  RecordProperty("tenth_ms", static_cast<int>(tenth * 1000));
  RecordProperty("first_ms", static_cast<int>(first * 1000));
  RecordProperty("without_cache_ms", static_cast<int>(again * 1000));
  EXPECT_LT(tenth, again / 3);
}

class PrefixFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() /
             ("etna_prefixes_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
              ".safetensors"))
                .string();
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string refusal(Generator& generator) {
    const KvCacheStats before = generator.cache().stats();
    std::string text;
    try {
      generator.load_cache(path_);
    } catch (const FormatError& error) {
      text = error.what();
    }
    EXPECT_EQ(generator.cache().stats().cached, before.cached);
    EXPECT_EQ(generator.cache().stats().in_use, before.in_use);
    return text;
  }
  std::string path_;
};

TEST_F(PrefixFile, ServesPromptsOfAnotherGenerator) {
  for (const DType dtype : {f32, f16}) {
    const auto model = chat_model("gemma2");
    ChatText first = user_says(1, 300), second = user_says(2, 200);
    ChatText first_again = first, second_again = second;
    second_again.push_back(4);
    {
      Generator generator(*model, {.cache = {.dtype = dtype}});
      answer(generator, first, 30);
      answer(generator, second, 30);
      generator.save_cache(path_);
      second.resize(200);
      second.push_back(4);
      answer(generator, second, 30);
    }
    Generator generator(*model, {.cache = {.dtype = dtype}});
    EXPECT_EQ(generator.load_cache(path_), 5 + 3);
    EXPECT_EQ(generator.load_cache(path_), 0) << "they are there";
    EXPECT_EQ(generator.cache().stats().cached, 8);
    EXPECT_EQ(answer(generator, first_again, 30), 256);
    EXPECT_EQ(answer(generator, second_again, 30), 192);
    EXPECT_EQ(first_again, first);
    EXPECT_EQ(second_again, second);
  }
}

TEST_F(PrefixFile, LoadsTheLatestWhereThereIsNoRoomForAll) {
  const auto model = chat_model("llama");
  Generator generator(*model);
  ChatText old = user_says(1, 300), recent = user_says(2, 300);
  answer(generator, old, 2);
  answer(generator, recent, 2);
  generator.save_cache(path_);
  Generator small(*model, {.cache = {.tokens = 6 * 64}});
  EXPECT_EQ(small.load_cache(path_), 6);
  ChatText again = user_says(2, 300);
  EXPECT_EQ(answer(small, again, 2), 256);
}

TEST_F(PrefixFile, RefusesOtherModelsAndDamage) {
  const auto model = chat_model("llama");
  Generator generator(*model);
  EXPECT_THAT(refusal(generator), HasSubstr(path_));  // there is none
  ChatText text = user_says(1, 200);
  answer(generator, text, 5);
  generator.save_cache(path_);
  {
    const auto other = chat_model("llama");
    other->blocks[0].ffn->up.weight.detach().select(0, 3).select(0, 5).fill_(0.25);
    Generator its(*other);
    EXPECT_THAT(refusal(its), HasSubstr("another model"));
    const auto longer = chat_model("llama", 1024);
    Generator longers(*longer);
    EXPECT_THAT(refusal(longers), HasSubstr("another model"));
    Generator wide(*model, {.cache = {.dtype = f32}});
    EXPECT_THAT(refusal(wide), HasSubstr("'keys.0' is f16"));
  }
  std::map<std::string, Tensor> tensors = load_safetensors(path_);
  const Metadata metadata = load_safetensors_metadata(path_);
  const auto write = [&](const std::string& changed, const Tensor& x) {
    std::map<std::string, Tensor> other = tensors;
    if (x.defined())
      other[changed] = x;
    else
      other.erase(changed);
    save_safetensors(path_, other, metadata);
  };
  Generator fresh(*model);
  write("tokens", tensors["tokens"] + 1);
  EXPECT_THAT(refusal(fresh), HasSubstr("damaged"));
  write("values.1", Tensor());
  EXPECT_THAT(refusal(fresh), HasSubstr("damaged"));
  save_safetensors(path_, tensors, {{"format", "another"}});
  EXPECT_THAT(refusal(fresh), HasSubstr("no file of cached prefixes"));
  save_safetensors(path_, tensors, metadata);
  EXPECT_EQ(fresh.load_cache(path_), 3);
  const auto size = std::filesystem::file_size(path_);
  for (const std::uintmax_t kept : {size - 1, size / 2, std::uintmax_t{9}, std::uintmax_t{0}}) {
    save_safetensors(path_, tensors, metadata);
    std::filesystem::resize_file(path_, kept);
    EXPECT_FALSE(refusal(fresh).empty()) << kept;
  }
}

TEST_F(PrefixFile, OfABuildWithoutAdaptersHasNone) {
  const auto model = chat_model("llama");
  Generator generator(*model);
  const ChatText prompt = user_says(1, 200);
  ChatText wanted = prompt, text = prompt;
  answer(generator, wanted, 5);
  generator.save_cache(path_);
  std::map<std::string, Tensor> tensors = load_safetensors(path_);
  ASSERT_EQ(tensors.erase("adapters"), 1u);
  Metadata metadata = load_safetensors_metadata(path_);
  metadata.erase("hash");
  const NamedTensors sorted(tensors.begin(), tensors.end());
  metadata["hash"] = content_hash(sorted, metadata);
  save_safetensors(path_, sorted, metadata);
  Generator fresh(*model);
  EXPECT_EQ(fresh.load_cache(path_), 3);
  EXPECT_EQ(answer(fresh, text, 5), 3 * kCacheBlock);
  EXPECT_EQ(text, wanted);
}

TEST(PrefixCache, SavesNothingOfAnEmptyCache) {
  const auto model = chat_model("llama");
  const std::string path = (std::filesystem::temp_directory_path() / "etna_no_prefixes.safetensors").string();
  Generator generator(*model);
  generator.save_cache(path);
  EXPECT_EQ(generator.load_cache(path), 0);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace etna::models
