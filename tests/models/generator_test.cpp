#include <etna/models/generator.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/memory.h>
#include <etna/models/internal/look_up.h>

#include "runner/run_tests.h"
#include "small_models.h"

namespace etna::models {
namespace {

std::vector<std::int32_t> generator_text_of(Generator& generator, const std::vector<std::int32_t>& prompt,
                                            const GenerationOptions& options) {
  std::vector<std::int32_t> tokens;
  generator.generate(prompt, options, [&](std::int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

GenerationOptions generator_greedy(std::int64_t tokens) {
  return {.max_tokens = tokens, .sampling = {.temperature = 0}};
}

TEST(Generator, GivesAsManyTokensAsAsked) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model);
  for (const std::int64_t count : {1, 2, 3, 70})
    EXPECT_EQ(std::ssize(generator_text_of(generator, {5, 9}, generator_greedy(count))), count);
}

TEST(Generator, GreedyIsTheMostProbableToken) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model, {.cache = {.dtype = f32}});
  std::vector<std::int32_t> tokens = some_text(5, 97);
  const std::vector<std::int32_t> more = generator_text_of(generator, tokens, generator_greedy(40));
  const NoGrad no_grad;
  tokens.insert(tokens.end(), more.begin(), more.end());
  const std::vector<std::int32_t> best =
      argmax(model->forward(from_vector(tokens, {1, std::ssize(tokens)})), -1).to_vector<std::int32_t>();
  for (std::size_t i = 0; i < more.size(); ++i) EXPECT_EQ(more[i], best[i + 4]) << i;
}

TEST(Generator, GuessesChangeNothingButTheSpeed) {
  DecoderConfig config = small_config("llama");
  config.vocabulary = 11;  // few tokens repeat themselves soon
  const auto model = small_model(config);
  const std::vector<std::int32_t> prompt = {3, 7, 1, 3, 7, 1, 3, 7};
  for (const double temperature : {0.0, 0.7}) {
    GenerationOptions options{.max_tokens = 120, .sampling = {.temperature = temperature, .seed = 5}};
    Generator plain(*model, {.cache = {.dtype = f32}});
    const std::vector<std::int32_t> wanted = generator_text_of(plain, prompt, options);
    for (const std::int64_t guesses : {1, 3, 7, 20}) {
      Generator generator(*model, {.guesses = guesses, .cache = {.dtype = f32}});
      EXPECT_EQ(generator_text_of(generator, prompt, options), wanted) << guesses;
      EXPECT_GT(generator.times().guessed, generator.times().guessed_right);
      EXPECT_GT(generator.times().guessed_right, temperature == 0 ? 20 : 0) << guesses;
      // What was cached of the first text serves the second.
      EXPECT_EQ(generator_text_of(generator, prompt, options), wanted) << guesses;
      options.stop_tokens = {wanted[60]};
      const auto stop = std::find(wanted.begin(), wanted.end(), wanted[60]);
      EXPECT_EQ(generator_text_of(generator, prompt, options), std::vector<std::int32_t>(wanted.begin(), stop));
      options.stop_tokens.clear();
    }
  }
}

TEST(Generator, GuessesForSeveralSequencesAtOnce) {
  DecoderConfig config = small_config("llama");
  config.vocabulary = 11;
  const auto model = small_model(config);
  const std::vector<std::vector<std::int32_t>> prompts = {{3, 7, 1, 3, 7, 1, 3, 7}, {1, 2, 1, 2, 1, 2}, {5}};
  Generator generator(*model, {.slots = 3, .guesses = 4, .cache = {.tokens = 1024, .dtype = f32}});
  std::map<Generator::Id, std::size_t> which;
  std::vector<std::vector<std::int32_t>> together(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i)
    which[generator.join(prompts[i], generator_greedy(40 + 30 * static_cast<std::int64_t>(i)))] = i;
  for (std::vector<GeneratedToken> tokens; !(tokens = generator.step()).empty();)
    for (const GeneratedToken& t : tokens) together[which.at(t.sequence)].push_back(t.token);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Generator alone(*model, {.cache = {.dtype = f32}});
    EXPECT_EQ(together[i],
              generator_text_of(alone, prompts[i], generator_greedy(40 + 30 * static_cast<std::int64_t>(i))))
        << i;
  }
}

/// Up to the last position: where several tokens have no room, one still has.
TEST(Generator, GuessesStopAtTheContextsEnd) {
  DecoderConfig config = small_config("llama");
  config.vocabulary = 11;
  const auto model = small_model(config);
  Generator plain(*model), generator(*model, {.guesses = 6});
  const auto wanted = generator_text_of(plain, {3, 7, 1, 3, 7, 1}, generator_greedy(1000));
  EXPECT_EQ(generator_text_of(generator, {3, 7, 1, 3, 7, 1}, generator_greedy(1000)), wanted);
  EXPECT_EQ(std::ssize(wanted), config.context - 6 + 1);
}

TEST(LookUp, GivesWhatFollowedTheLastTime) {
  using Tokens = std::vector<std::int32_t>;
  EXPECT_EQ(look_up(Tokens{1, 2, 3, 4, 9, 1, 2, 3, 5, 8, 1, 2, 3}, 2), (Tokens{5, 8}));
  EXPECT_EQ(look_up(Tokens{1, 2, 3, 7, 2, 3}, 5), (Tokens{7, 2, 3}));
  EXPECT_EQ(look_up(Tokens{4, 4, 4, 4}, 3), (Tokens{4}));
  EXPECT_EQ(look_up(Tokens{1, 2, 3, 4}, 3), Tokens{});
  EXPECT_EQ(look_up(Tokens{1, 2}, 3), Tokens{});
  EXPECT_EQ(look_up(Tokens{}, 3), Tokens{});
  EXPECT_EQ(look_up(Tokens{1, 2, 1, 2}, 0), Tokens{});
}

TEST(Generator, SequencesTogetherAreAsAlone) {
  const auto model = small_model(small_config("qwen3"));
  const std::vector<std::vector<std::int32_t>> prompts = {some_text(3, 97), some_text(70, 89), some_text(20, 83), {1}};
  std::vector<std::vector<std::int32_t>> alone;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Generator generator(*model, {.cache = {.dtype = f32}});
    alone.push_back(generator_text_of(generator, prompts[i], generator_greedy(20 + 10 * static_cast<std::int64_t>(i))));
  }
  Generator generator(*model, {.slots = 3, .cache = {.tokens = 1024, .dtype = f32}});
  std::map<Generator::Id, std::size_t> which;
  std::vector<std::vector<std::int32_t>> together(prompts.size());
  std::size_t next = 0;
  // They join when a slot is free, between steps.
  for (int i = 0; i < 200; ++i) {
    if (next < prompts.size() && generator.has_room() && i >= 4 * static_cast<int>(next)) {
      which[generator.join(prompts[next], generator_greedy(20 + 10 * static_cast<std::int64_t>(next)))] = next;
      ++next;
    }
    for (const GeneratedToken& token : generator.step()) together[which.at(token.sequence)].push_back(token.token);
  }
  EXPECT_EQ(together, alone);
}

TEST(Generator, VulkanWritesWhatTheCpuWrites) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  for (const char* architecture : {"llama", "gemma3", "phi2", "gpt2"}) {
    const auto model = small_model(small_config(architecture));
    Generator here(*model, {.cache = {.dtype = f32}});
    const GenerationOptions draws{.max_tokens = 20,
                                  .sampling = {.temperature = 0.5, .top_k = 5, .repetition_penalty = 1.1, .seed = 9}};
    const auto drawn = generator_text_of(here, some_text(40, 97), draws),
               best = generator_text_of(here, some_text(70, 97), generator_greedy(40));
    model->to(kVulkan);
    Generator there(*model, {.device = kVulkan, .cache = {.dtype = f32}});
    EXPECT_EQ(generator_text_of(there, some_text(70, 97), generator_greedy(40)), best) << architecture;
    EXPECT_EQ(generator_text_of(there, some_text(40, 97), draws), drawn) << architecture;
  }
}

TEST(Generator, DrawsTheSameBySeed) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model);
  const GenerationOptions one{.max_tokens = 30, .sampling = {.temperature = 1, .seed = 5}};
  GenerationOptions other = one;
  other.sampling.seed = 6;
  EXPECT_EQ(generator_text_of(generator, {3}, one), generator_text_of(generator, {3}, one));
  EXPECT_NE(generator_text_of(generator, {3}, one), generator_text_of(generator, {3}, other));
}

TEST(Generator, PenaltiesAndBiasesCount) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model);
  GenerationOptions options = generator_greedy(60);
  options.sampling.presence_penalty = 1000;
  std::vector<std::int32_t> tokens = generator_text_of(generator, {3, 4}, options);
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(std::adjacent_find(tokens.begin(), tokens.end()), tokens.end());
  options = generator_greedy(5);
  options.sampling.logit_bias = {{42, 1000.0f}};
  EXPECT_EQ(generator_text_of(generator, {3, 4}, options), std::vector<std::int32_t>(5, 42));
  EXPECT_NE(generator_text_of(generator, {3, 4}, generator_greedy(5)), std::vector<std::int32_t>(5, 42));
}

TEST(Generator, StopsAtStopTokensAndAtTheContextsEnd) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model);
  const std::vector<std::int32_t> text = generator_text_of(generator, {8}, generator_greedy(30));
  GenerationOptions options = generator_greedy(30);
  options.stop_tokens = {text[12]};
  const auto first = std::find(text.begin(), text.end(), text[12]);
  EXPECT_EQ(generator_text_of(generator, {8}, options), std::vector<std::int32_t>(text.begin(), first));
  EXPECT_EQ(std::ssize(generator_text_of(generator, {8}, generator_greedy(1000))), 256);
  const Generator::Id id = generator.join(some_text(10, 97), generator_greedy(1000));
  while (generator.stopped(id) == StopReason::none) generator.step();
  EXPECT_EQ(generator.stopped(id), StopReason::context_full);
}

TEST(Generator, EndlessTextsKeepMemoryFlat) {
  std::vector<Device> devices = {kCPU};
  if (std::getenv("ETNA_TEST_VULKAN") != nullptr) devices.push_back(kVulkan);
  for (const Device device : devices) {
    const std::int64_t first = device.is_cpu() ? 500 : 350, most = !device.is_cpu() ? 450 : test_all() ? 10000 : 2000;
    for (const char* architecture : {"llama", "gpt2"}) {
      DecoderConfig config = small_config(architecture);
      config.context = 320;
      const auto model = small_model(config);
      model->to(device);
      Generator generator(*model, {.device = device, .cache = {.dtype = f32}});
      GenerationOptions options = generator_greedy(first);
      options.endless = true;
      EXPECT_EQ(std::ssize(generator_text_of(generator, some_text(30, 97), options)), first) << architecture;
      const std::uint64_t before = memory_stats(device).in_use;
      const std::uint64_t misses = memory_stats(device).misses;
      options.max_tokens = most;
      EXPECT_EQ(std::ssize(generator_text_of(generator, some_text(30, 97), options)), most) << architecture;
      EXPECT_LE(memory_stats(device).in_use, before + 65536) << architecture << device.str();
      EXPECT_EQ(memory_stats(device).misses, misses) << architecture << device.str() << ": memory came from the system";
    }
  }
}

/// Within a block of the cache, not even from memory that is kept.
TEST(Generator, DecodingAllocatesNothing) {
  std::vector<Device> devices = {kCPU};
  if (std::getenv("ETNA_TEST_VULKAN") != nullptr) devices.push_back(kVulkan);
  for (const Device device : devices) {
    const auto model = small_model(small_config("llama"));
    model->to(device);
    Generator generator(*model, {.device = device});
    generator.join(some_text(10, 97), generator_greedy(100));
    const auto allocations = [&] { return memory_stats(device).hits + memory_stats(device).misses; };
    for (int i = 0; i < 4; ++i) generator.step();  // compiles and captures
    const std::uint64_t before = allocations(), bytes = memory_stats(device).in_use;
    for (int i = 0; i < 40; ++i) generator.step();
    EXPECT_EQ(allocations(), before) << device.str();
    EXPECT_EQ(memory_stats(device).in_use, bytes) << device.str();
  }
}

TEST(Generator, PromptsThatBeginAlikeAreReadOnce) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model, {.cache = {.tokens = 1024, .dtype = f32}});
  std::vector<std::int32_t> prompt = some_text(150, 97);
  const std::vector<std::int32_t> first = generator_text_of(generator, prompt, generator_greedy(20));
  EXPECT_EQ(generator.cache().stats().reused_tokens, 0);
  EXPECT_EQ(generator_text_of(generator, prompt, generator_greedy(20)), first);
  EXPECT_EQ(generator.cache().stats().reused_tokens, 128);
  prompt[64] ^= 1;
  generator_text_of(generator, prompt, generator_greedy(1));
  EXPECT_EQ(generator.cache().stats().reused_tokens, 192);
  EXPECT_EQ(generator.cache().stats().in_use, 0);
}

TEST(Generator, RefusesWhatItCannotRead) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model);
  EXPECT_THROW(generator.join({}), Error);
  EXPECT_THROW(generator.join(std::vector<std::int32_t>{97}), IndexError);
  EXPECT_THROW(generator.join(std::vector<std::int32_t>{-1}), IndexError);
  EXPECT_THROW(generator.join(some_text(257, 97)), Error);
  EXPECT_THROW(generator.join(some_text(3, 97), {.sampling = {.temperature = -1}}), Error);
  generator.join(some_text(3, 97));
  EXPECT_THROW(generator.join(some_text(3, 97)), Error);
}

TEST(KvCache, EvictsByTheChosenRule) {
  DecoderConfig config = small_config("llama");
  const auto prompt = [](std::int32_t first) {
    std::vector<std::int32_t> tokens = some_text(65, 97);
    tokens[0] = first;
    return tokens;
  };
  const auto reused_after = [&](CacheEviction eviction, std::vector<std::int32_t> uses, std::int32_t asked) {
    KvCache cache(config, kCPU, {.tokens = 3 * kCacheBlock, .dtype = f32, .eviction = eviction});
    for (const std::int32_t first : uses) {
      const KvCache::Started started = cache.start(prompt(first));
      cache.reserve(started.id, 64);
      const std::vector<std::int32_t> tokens = prompt(first);
      cache.finish(started.id, std::span(tokens).first(64));
    }
    return cache.start(prompt(asked)).reused;
  };
  // Three fit. The fourth takes the place of one of them.
  EXPECT_EQ(reused_after(CacheEviction::lru, {1, 2, 3, 1, 4}, 1), 64);
  EXPECT_EQ(reused_after(CacheEviction::lru, {1, 2, 3, 1, 4}, 2), 0);
  EXPECT_EQ(reused_after(CacheEviction::fifo, {1, 2, 3, 1, 4}, 1), 0);
  EXPECT_EQ(reused_after(CacheEviction::lfu, {1, 2, 2, 3, 3, 1, 1, 4}, 2), 0);
  EXPECT_EQ(reused_after(CacheEviction::lfu, {1, 2, 2, 3, 3, 1, 1, 4}, 1), 64);
}

TEST(KvCache, GivesUpEveryBlockThatNothingUses) {
  std::mt19937 random(3);
  const auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (const CacheEviction eviction : {CacheEviction::lru, CacheEviction::fifo, CacheEviction::lfu}) {
    KvCache cache(small_config("llama"), kCPU, {.tokens = 12 * kCacheBlock, .dtype = f32, .eviction = eviction});
    std::vector<std::pair<KvCache::Id, std::vector<std::int32_t>>> live;
    int times_full = 0;
    for (int step = 0; step < 3000; ++step) {
      if (live.size() < 4 && pick(3) > 0) {
        std::vector<std::int32_t> tokens;  // few different blocks, so that prefixes are shared
        for (std::size_t block = pick(6) + 1; block-- > 0;) tokens.insert(tokens.end(), kCacheBlock, pick(2) ? 1 : 2);
        const KvCache::Started started = cache.start(tokens);
        try {
          cache.reserve(started.id, std::ssize(tokens));
          live.emplace_back(started.id, tokens);
        } catch (const CacheFull&) {
          ++times_full;
          cache.finish(started.id, {});
        }
      } else if (!live.empty()) {
        const std::size_t i = pick(live.size());
        const auto& [id, tokens] = live[i];
        if (pick(2) == 0) cache.share(id, tokens);
        cache.finish(id, std::span(tokens).first(pick(2) * tokens.size()));
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
      }
      ASSERT_GE(cache.stats().in_use, 0);
    }
    EXPECT_GT(times_full, 0);
    for (const auto& [id, tokens] : live) cache.finish(id, tokens);
    EXPECT_EQ(cache.stats().in_use, 0);
    const KvCache::Started all = cache.start({});
    cache.reserve(all.id, 12 * kCacheBlock);  // takes the place of all that is cached
    EXPECT_EQ(cache.stats().cached, 0);
  }
}

TEST(KvCache, SaysThatItIsFull) {
  KvCache cache(small_config("llama"), kCPU, {.tokens = 128, .dtype = f32});
  const KvCache::Started one = cache.start({});
  cache.reserve(one.id, 65);
  const KvCache::Started two = cache.start({});
  EXPECT_THROW(cache.reserve(two.id, 1), CacheFull);
  cache.truncate(one.id, 64);
  cache.reserve(two.id, 64);
  EXPECT_THROW(cache.reserve(two.id, 65), CacheFull);
  EXPECT_EQ(cache.stats().in_use, 2);
  EXPECT_THROW(KvCache(small_config("llama"), kCPU, {.bytes = 100}), Error);
}

}  // namespace
}  // namespace etna::models
