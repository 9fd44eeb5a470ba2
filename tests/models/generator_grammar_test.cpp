#include <map>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/models/generator.h>
#include <etna/models/grammar/grammar.h>

#include "small_models.h"

// Texts that must have a form.
namespace etna::models {
namespace {

using testing::HasSubstr;
using Text = std::vector<std::int32_t>;

constexpr std::int32_t kStop = 1;

/// States with the tokens that lead on from them.
class TableGrammar : public TokenGrammar {
 public:
  struct Row {
    std::map<std::int32_t, State> next;
    bool ends = false;
  };
  TableGrammar(std::vector<Row> rows, std::int64_t vocabulary)
      : rows_(std::move(rows)), vocabulary_(vocabulary), words_(static_cast<std::size_t>((vocabulary + 31) / 32)) {}

  State next(State state, std::int32_t token) override {
    const auto& row = rows_.at(static_cast<std::size_t>(state)).next;
    const auto found = row.find(token);
    return found == row.end() ? kRefused : found->second;
  }
  std::span<const std::uint32_t> allowed(State state) override {
    ++asked;
    const Row& row = rows_.at(static_cast<std::size_t>(state));
    words_.assign(words_.size(), 0);
    const auto allow = [&](std::int32_t token) { words_[static_cast<std::size_t>(token) / 32] |= 1u << (token % 32); };
    for (const auto& [token, state_after] : row.next) allow(token);
    if (row.ends) allow(kStop);
    return words_;
  }
  bool may_end(State state) override { return rows_.at(static_cast<std::size_t>(state)).ends; }
  std::int64_t vocabulary() const override { return vocabulary_; }

  int asked = 0;

 private:
  std::vector<Row> rows_;
  std::int64_t vocabulary_;
  std::vector<std::uint32_t> words_;
};

/// "60 (5 | 96)* 33 (7 | 8)", where the text may also end behind 33.
std::shared_ptr<TableGrammar> some_grammar(std::int64_t vocabulary = 97) {
  return std::make_shared<TableGrammar>(
      std::vector<TableGrammar::Row>{{{{60, 1}}}, {{{5, 1}, {96, 1}, {33, 2}}}, {{{7, 3}, {8, 3}}, true}, {{}, true}},
      vocabulary);
}

bool has_the_form(const Text& text) {
  std::size_t i = 0;
  if (text.empty() || text[i++] != 60) return false;
  while (i < text.size() && (text[i] == 5 || text[i] == 96)) ++i;
  if (i == text.size() || text[i++] != 33) return false;
  return i == text.size() || (i + 1 == text.size() && (text[i] == 7 || text[i] == 8));
}

GenerationOptions formed(std::shared_ptr<TokenGrammar> grammar, double temperature, std::uint64_t seed = 0) {
  GenerationOptions options{.max_tokens = 100,
                            .sampling = {.temperature = temperature, .top_k = 0, .top_p = 1},
                            .stop_tokens = {kStop},
                            .grammar = std::move(grammar)};
  options.sampling.seed = seed;
  return options;
}

std::map<Generator::Id, Text> texts_of(Generator& generator) {
  std::map<Generator::Id, Text> texts;
  while (generator.busy())
    for (const GeneratedToken& t : generator.step()) texts[t.sequence].push_back(t.token);
  return texts;
}

TEST(GeneratorGrammar, EveryTextHasTheForm) {
  const auto model = small_model(small_config("llama"));
  const auto grammar = some_grammar();
  Generator generator(*model, {.slots = 4, .cache = {.tokens = 2048}});
  const Text free_prompt = some_text(12, 97);
  Text free_text;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    GenerationOptions plain{.max_tokens = 30, .sampling = {.temperature = 0}};
    GenerationOptions penalized = formed(grammar, 1.2, seed);
    penalized.sampling.repetition_penalty = 1.4;
    penalized.sampling.logit_bias = {{5, 2.f}, {50, 100.f}};
    penalized.sampling.top_k = 3;
    const Generator::Id free = generator.begin(free_prompt, plain);
    const Generator::Id ids[] = {
        generator.begin(some_text(3 + static_cast<std::int64_t>(seed), 97), formed(grammar, 2, seed)),
        generator.begin(some_text(40, 97), formed(some_grammar(), 1, seed)),
        generator.begin(some_text(9, 97), penalized)};
    std::map<Generator::Id, Text> texts = texts_of(generator);
    for (const Generator::Id id : ids) {
      EXPECT_TRUE(has_the_form(texts[id])) << testing::PrintToString(texts[id]);
      EXPECT_EQ(generator.stopped(id), StopReason::stop_token) << generator.error_of(id);
    }
    // The others are free, also in a slot that had a grammar before.
    EXPECT_EQ(texts[free].size(), 30u);
    if (seed == 0) free_text = texts[free];
    EXPECT_EQ(texts[free], free_text);
  }
  EXPECT_LE(grammar->asked, 4) << "a state's mask is written once";
}

TEST(GeneratorGrammar, WorksNextToGuessesAndWithLogProbabilities) {
  const auto model = small_model(small_config("llama"));
  for (const std::int64_t guesses : {0, 3}) {
    Generator generator(*model, {.slots = 2, .guesses = guesses, .cache = {.tokens = 1024}});
    GenerationOptions options = formed(some_grammar(), 1, 5);
    options.logprobs = 2;
    const Generator::Id a = generator.join(some_text(20, 97), options);
    generator.join(Text(40, 3), {.max_tokens = 20, .sampling = {.temperature = 0}});
    Text text;
    while (generator.busy()) {
      for (const GeneratedToken& t : generator.step()) {
        if (t.sequence != a) continue;
        text.push_back(t.token);
        EXPECT_LT(t.logprob, 0);
        EXPECT_EQ(t.top.size(), 2u);
      }
    }
    EXPECT_TRUE(has_the_form(text)) << testing::PrintToString(text);
  }
}

TEST(GeneratorGrammar, SaysWhenATextIsCutShort) {
  const auto model = small_model(small_config("llama"));
  Generator generator(*model);
  GenerationOptions options = formed(some_grammar(), 1);
  options.max_tokens = 1;
  const Generator::Id cut = generator.join(Text{3}, options);
  texts_of(generator);
  EXPECT_EQ(generator.stopped(cut), StopReason::max_tokens);
  // Complete with its last token, after which only the stop token may come.
  const auto two =
      std::make_shared<TableGrammar>(std::vector<TableGrammar::Row>{{{{60, 1}}}, {{{7, 2}}}, {{}, true}}, 97);
  options = formed(two, 1);
  options.max_tokens = 2;
  const Generator::Id whole = generator.join(Text{3}, options);
  EXPECT_EQ(texts_of(generator)[whole], (Text{60, 7}));
  EXPECT_EQ(generator.stopped(whole), StopReason::stop_token);
}

/// Errors of a grammar, and what can only be its mistake.
TEST(GeneratorGrammar, ABadGrammarEndsItsSequenceOnly) {
  struct Thrower : TableGrammar {
    using TableGrammar::TableGrammar;
    State next(State, std::int32_t) override { throw Error("more states than allowed"); }
  };
  const auto model = small_model(small_config("llama"));
  Generator generator(*model, {.slots = 5, .cache = {.tokens = 1024}});
  const auto dead = std::make_shared<TableGrammar>(std::vector<TableGrammar::Row>{{{{60, 1}}}, {}}, 97);
  const auto thrower = std::make_shared<Thrower>(std::vector<TableGrammar::Row>{{{{60, 0}}}}, 97);
  GenerationOptions forbidden = formed(some_grammar(), 1), no_stop = formed(some_grammar(), 1);
  forbidden.sampling.logit_bias = {{60, -std::numeric_limits<float>::infinity()}};
  no_stop.stop_tokens = {};
  const Generator::Id free = generator.begin(Text{4}, {.max_tokens = 50, .sampling = {.temperature = 0}});
  const Generator::Id ids[] = {generator.begin(Text{4}, formed(dead, 1)), generator.begin(Text{4}, formed(thrower, 1)),
                               generator.begin(Text{4}, forbidden), generator.begin(Text{4}, no_stop)};
  const char* messages[] = {"allows no token in state 1", "more states than allowed", "refuses token",
                            "refuses token 1"};
  EXPECT_EQ(texts_of(generator)[free].size(), 50u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(generator.stopped(ids[i]), StopReason::failed) << i;
    EXPECT_THAT(generator.error_of(ids[i]), HasSubstr(messages[i]));
  }
  EXPECT_EQ(generator.cache().stats().in_use, 0);
  EXPECT_THROW(generator.begin(Text{4}, formed(some_grammar(98), 1)), Error);
}

/// More states than the table of masks has rows, in turns.
TEST(GeneratorGrammar, FindsMasksThatWereReplaced) {
  const auto model = small_model(small_config("llama"));
  std::vector<TableGrammar::Row> rows;
  constexpr std::int32_t kStates = 400;
  for (std::int32_t i = 0; i < kStates; ++i) rows.push_back({{{2 + i * i % 95, i + 1}}});
  rows.push_back({{}, true});
  const auto grammar = std::make_shared<TableGrammar>(rows, 97);
  DecoderConfig config = small_config("llama");
  config.context = 1024;
  const auto long_model = small_model(config);
  Generator generator(*long_model, {.slots = 2});
  for (int i = 0; i < 2; ++i) {
    GenerationOptions options = formed(grammar, 1);
    options.max_tokens = 1000;
    const Generator::Id id = generator.join(Text{4}, options);
    const Text text = texts_of(generator)[id];
    ASSERT_EQ(std::ssize(text), kStates) << generator.error_of(id);
    for (std::int32_t t = 0; t < kStates; ++t) ASSERT_EQ(text[static_cast<std::size_t>(t)], 2 + t * t % 95);
  }
  EXPECT_EQ(grammar->asked, 2 * (kStates + 1));
}

}  // namespace
}  // namespace etna::models
