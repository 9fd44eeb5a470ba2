#include <algorithm>
#include <cstdlib>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/models/generator.h>

#include "small_models.h"

// Sequences that share slots and a cache write what each would write alone.
namespace etna::models {
namespace {

using Tokens = std::vector<std::int32_t>;

/// Of few tokens and short contexts, so that guesses come true and texts reach their context's end soon.
std::unique_ptr<Decoder> schedule_model(const std::string& architecture, std::int64_t layers, std::uint64_t seed) {
  DecoderConfig config = small_config(architecture);
  config.vocabulary = 13;
  config.context = 192;
  config.width = config.feed_forward = 32;
  config.layers = layers;
  config.heads = config.kv_heads = 1;
  config.head_size = config.rope.size = 32;  // a row of Q8_0
  return small_model(config, seed);
}

struct Planned {
  Tokens prompt;
  GenerationOptions options;
  Tokens text = {};
  Generator::Id id = -1;
  bool interrupted = false;
};

class Schedule {
 public:
  explicit Schedule(std::uint32_t seed) : random_(seed) {
    for (std::int64_t i = 0, count = draw(2, 6); i < count; ++i) plan();
  }

  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool one_in(std::int64_t n) { return draw(1, n) == 1; }

  /// Sequences join and leave in any order until all have ended.
  void run(Generator& generator) {
    std::size_t next = 0;
    while (true) {
      while (next < planned.size() && generator.has_room() && !one_in(3)) {
        Planned& p = planned[next];
        try {
          p.id = generator.join(p.prompt, p.options);
          ++next;
        } catch (const CacheFull&) {
          if (running(generator).empty()) ++next;  // no room for it in an empty cache
          break;
        }
      }
      if (one_in(40)) leave_one(generator);
      try {
        for (const GeneratedToken& token : generator.step())
          std::find_if(planned.begin(), planned.end(), [&](const Planned& p) {
            return p.id == token.sequence;
          })->text.push_back(token.token);
      } catch (const CacheFull&) {
        leave_one(generator);
        ++full;
      }
      if (next == planned.size() && running(generator).empty()) return;
    }
  }

  std::vector<Planned> planned;
  int full = 0;

 private:
  void plan() {
    Planned p;
    // Half of them begin alike.
    const std::int64_t length = draw(1, one_in(2) ? 180 : 30), other = one_in(2) ? draw(0, 12) : 0;
    for (std::int64_t i = 0; i < length; ++i) p.prompt.push_back(static_cast<std::int32_t>((i * i + other) % 13));
    if (one_in(2)) p.prompt.back() = static_cast<std::int32_t>(draw(0, 12));
    p.options.max_tokens = draw(0, one_in(3) ? 250 : 60);
    p.options.endless = one_in(2);
    p.options.sinks = std::vector<std::int64_t>{0, 4, 70, 1000}[static_cast<std::size_t>(draw(0, 3))];
    p.options.sampling.temperature = one_in(2) ? 0 : 0.9;
    p.options.sampling.seed = random_();
    if (one_in(8)) p.options.sampling.repetition_penalty = 1.3;
    if (one_in(8)) p.options.sampling.presence_penalty = 0.7;
    if (one_in(12)) p.options.sampling.logit_bias = {{static_cast<std::int32_t>(draw(0, 12)), 1.5f}};
    if (one_in(4)) p.options.stop_tokens = {static_cast<std::int32_t>(draw(0, 12))};
    planned.push_back(p);
  }

  std::vector<Planned*> running(const Generator& generator) {
    std::vector<Planned*> all;
    for (Planned& p : planned)
      if (p.id >= 0 && generator.stopped(p.id) == StopReason::none) all.push_back(&p);
    return all;
  }

  void leave_one(Generator& generator) {
    const std::vector<Planned*> all = running(generator);
    if (all.empty()) return;
    Planned& p = *all[static_cast<std::size_t>(draw(0, std::ssize(all) - 1))];
    generator.leave(p.id);
    p.interrupted = true;
  }

  std::mt19937 random_;
};

/// The environment variable ETNA_TEST_SCHEDULES says how many schedules are tried, and ETNA_TEST_FIRST_SCHEDULE from
/// which on.
std::int64_t number_in_environment(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

TEST(GeneratorSchedule, EachTextIsThatOfTheSequenceAlone) {
  const std::unique_ptr<Decoder> models[] = {schedule_model("llama", 2, 7), schedule_model("gpt2", 2, 8)};
  const std::unique_ptr<Decoder> drafts[] = {schedule_model("llama", 1, 9), schedule_model("gpt2", 1, 10)};
  const std::int64_t first = number_in_environment("ETNA_TEST_FIRST_SCHEDULE", 0),
                     end = first + number_in_environment("ETNA_TEST_SCHEDULES", 40);
  for (std::int64_t n = first; n < end; ++n) {
    Schedule schedule(static_cast<std::uint32_t>(n));
    const auto which = static_cast<std::size_t>(n % 2);
    GeneratorOptions together;
    together.slots = schedule.draw(1, 4);
    together.chunk = schedule.one_in(2) ? 0 : schedule.draw(1, 70);
    together.cache.dtype = n % 4 < 2 ? f16 : u8;
    together.cache.tokens = 64 * schedule.draw(1, 3) * (schedule.one_in(2) ? 1 : together.slots);
    together.cache.eviction = static_cast<CacheEviction>(schedule.draw(0, 2));
    together.guesses = schedule.one_in(2) ? 0 : schedule.draw(1, 5);
    if (together.guesses > 0 && schedule.one_in(2))
      together.draft =
          schedule.one_in(3) ? models[which].get() : drafts[static_cast<std::size_t>(schedule.draw(0, 1))].get();
    Generator generator(*models[which], together);
    schedule.run(generator);
    EXPECT_EQ(generator.cache().stats().in_use, 0) << "schedule " << n;
    GeneratorOptions single = together;
    single.slots = 1, single.guesses = 0, single.draft = nullptr, single.cache.reuse_prefixes = false;
    Generator alone(*models[which], single);
    for (const Planned& p : schedule.planned) {
      if (p.id < 0) continue;
      Tokens wanted;
      const StopReason reason = alone.generate(p.prompt, p.options, [&](std::int32_t token) {
        wanted.push_back(token);
        return true;
      });
      if (p.interrupted) {
        ASSERT_LE(p.text.size(), wanted.size()) << "schedule " << n << ", sequence " << p.id;
        wanted.resize(p.text.size());
      } else {
        EXPECT_EQ(generator.stopped(p.id), reason) << "schedule " << n << ", sequence " << p.id;
      }
      ASSERT_EQ(p.text, wanted) << "schedule " << n << ", sequence " << p.id;
    }
  }
}

/// Tokens of a sequence and why it ended, beside others.
Tokens tokens_of(const std::vector<GeneratedToken>& all, Generator::Id id) {
  Tokens tokens;
  for (const GeneratedToken& t : all)
    if (t.sequence == id) tokens.push_back(t.token);
  return tokens;
}

std::vector<GeneratedToken> all_tokens(Generator& generator) {
  std::vector<GeneratedToken> all;
  for (std::vector<GeneratedToken> some; !(some = generator.step()).empty();)
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

GenerationOptions schedule_greedy(std::int64_t tokens, bool endless = false) {
  return {.max_tokens = tokens, .sampling = {.temperature = 0}, .endless = endless};
}

/// A text that is read again ends at a block's end: the next position needs another one.
TEST(GeneratorSchedule, EndlessTextsLoseNoPositionWhereTheyAreReadAgain) {
  for (const auto& [architecture, dtype] : {std::pair{"gpt2", f16}, {"llama", u8}}) {
    const auto model = schedule_model(architecture, 2, 7);
    const Tokens prompt = some_text(150, 13);
    std::vector<Tokens> texts;
    for (const std::int64_t guesses : {0, 4}) {
      Generator generator(*model, {.guesses = guesses, .cache = {.dtype = dtype}});
      texts.emplace_back();
      generator.generate(prompt, schedule_greedy(200, true), [&](std::int32_t token) {
        texts.back().push_back(token);
        return true;
      });
    }
    EXPECT_EQ(texts[0], texts[1]) << architecture;
  }
}

TEST(GeneratorSchedule, EndsASequenceForItsOwnReasonsOnly) {
  const auto model = schedule_model("gpt2", 2, 7);
  Generator generator(*model, {.slots = 2, .cache = {.tokens = 1024}});
  generator.join(some_text(150, 13), schedule_greedy(400, true));
  for (int i = 0; i < 3; ++i) {
    const Generator::Id id = generator.join(some_text(20, 13), schedule_greedy(90));
    while (generator.stopped(id) == StopReason::none) generator.step();
    EXPECT_EQ(generator.stopped(id), StopReason::max_tokens);
  }
}

TEST(GeneratorSchedule, WantsNoRoomForASequenceThatHasAllItsTokens) {
  const auto model = schedule_model("llama", 2, 7);
  Generator generator(*model, {.slots = 2, .cache = {.tokens = 128}});
  const Generator::Id a = generator.join(Tokens(60, 3), schedule_greedy(5)),
                      b = generator.join(Tokens(30, 4), schedule_greedy(30));
  const std::vector<GeneratedToken> all = all_tokens(generator);
  EXPECT_EQ(tokens_of(all, a).size(), 5u);
  EXPECT_EQ(tokens_of(all, b).size(), 30u);
}

/// Three blocks for two sequences that want two each.
TEST(GeneratorSchedule, SequencesWaitForRoomUntilOthersHaveEnded) {
  const auto model = schedule_model("llama", 2, 7);
  Generator generator(*model, {.slots = 2, .cache = {.tokens = 192}});
  const Generator::Id a = generator.join(Tokens(60, 3), schedule_greedy(40)),
                      b = generator.join(Tokens(50, 4), schedule_greedy(60));
  const std::vector<GeneratedToken> all = all_tokens(generator);
  for (const auto& [id, prompt, count] : {std::tuple{a, Tokens(60, 3), 40}, {b, Tokens(50, 4), 60}}) {
    Generator alone(*model);
    alone.join(prompt, schedule_greedy(count));
    EXPECT_EQ(tokens_of(all, id), tokens_of(all_tokens(alone), 0)) << id;
  }
}

TEST(GeneratorSchedule, SaysThatTheCacheIsFullWhereAllWait) {
  const auto model = schedule_model("llama", 2, 7);
  Generator generator(*model, {.slots = 2, .cache = {.tokens = 128}});
  const Generator::Id a = generator.join(Tokens(60, 3), schedule_greedy(40)),
                      b = generator.join(Tokens(60, 4), schedule_greedy(40));
  std::size_t tokens = 0;
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) tokens += tokens_of(generator.step(), b).size();
      },
      CacheFull);
  EXPECT_THROW(generator.step(), CacheFull);
  generator.leave(a);
  EXPECT_EQ(tokens + tokens_of(all_tokens(generator), b).size(), 40u);
}

TEST(GeneratorSchedule, RemembersHowEachSequenceEnded) {
  const auto model = schedule_model("llama", 1, 7);
  Generator generator(*model);
  const Generator::Id first = generator.join(Tokens{1}, schedule_greedy(2));
  all_tokens(generator);
  for (int i = 0; i < 1100; ++i) generator.leave(generator.join(Tokens{1}, schedule_greedy(2)));
  EXPECT_EQ(generator.stopped(first), StopReason::max_tokens);
  EXPECT_EQ(generator.stopped(first + 1), StopReason::left);
  EXPECT_THROW(generator.stopped(5000), IndexError);
  EXPECT_THROW(generator.stopped(-1), IndexError);
}

TEST(GeneratorSchedule, RefusesOptionsOutOfRange) {
  const auto model = schedule_model("llama", 1, 7);
  Generator generator(*model);
  EXPECT_THROW(generator.join(Tokens{1}, {.endless = true, .sinks = -1}), Error);
  EXPECT_THROW(generator.join(Tokens{1}, {.max_tokens = -1}), Error);
  GenerationOptions forbidden;
  for (std::int32_t i = 0; i < 13; ++i) forbidden.sampling.logit_bias[i] = -INFINITY;
  EXPECT_THROW(generator.join(Tokens{1}, forbidden), Error);
  forbidden.sampling.logit_bias.erase(7);
  EXPECT_TRUE(generator.has_room());
  forbidden.max_tokens = 3;
  generator.join(Tokens{1}, forbidden);
  for (const GeneratedToken& t : all_tokens(generator)) EXPECT_EQ(t.token, 7);
  EXPECT_THROW(generator.logits(Tokens{13}), IndexError);
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t size : {kLargest, std::int64_t{1} << 40, std::int64_t{-1}}) {
    EXPECT_THROW(Generator(*model, {.slots = size}), Error) << size;
    EXPECT_THROW(Generator(*model, {.guesses = size}), Error) << size;
    EXPECT_THROW(Generator(*model, {.cache = {.tokens = size}}), Error) << size;
  }
  EXPECT_NO_THROW(Generator(*model, {.chunk = kLargest}));
  EXPECT_NO_THROW(Generator(*model, {.cache = {.bytes = std::numeric_limits<std::uint64_t>::max()}}));
}

}  // namespace
}  // namespace etna::models
