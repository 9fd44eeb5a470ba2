#include <bit>
#include <chrono>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/data/tokenizers/word_tokenizer.h>
#include <grammar/grammar_fixtures.h>
#include <tokenizers/model_fixtures.h>

namespace etna::models {
namespace {

using fixtures::is_allowed;
using fixtures::piece_vocabulary;
using testing::HasSubstr;

/// Every token's bytes through the bytes' own tokens, which next() follows one by one.
void check_masks(TokenGrammar& grammar, const std::vector<std::string>& texts, unsigned seed) {
  std::mt19937 random(seed);
  for (int walk = 0; walk < 6; ++walk) {
    TokenGrammar::State state = TokenGrammar::kStart;
    for (int n = 0; n < 40 && state != TokenGrammar::kRefused; ++n) {
      std::vector<std::int32_t> tokens;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const auto token = static_cast<std::int32_t>(i);
        TokenGrammar::State by_bytes = texts[i].empty() ? TokenGrammar::kRefused : state;
        for (const char c : texts[i])
          if (by_bytes != TokenGrammar::kRefused) by_bytes = grammar.next(by_bytes, static_cast<unsigned char>(c));
        const bool stops = token == 256;
        ASSERT_EQ(is_allowed(grammar, state, token),
                  stops ? grammar.may_end(state) : by_bytes != TokenGrammar::kRefused)
            << "token " << token;
        if (!stops) {
          ASSERT_EQ(grammar.next(state, token), by_bytes) << "token " << token;
        }
        if (is_allowed(grammar, state, token)) tokens.push_back(token);
      }
      ASSERT_FALSE(tokens.empty());
      state = grammar.next(state, tokens[random() % tokens.size()]);
    }
  }
}

TEST(TokenMasks, EqualEachTokensBytes) {
  const std::vector<std::string>& texts = fixtures::piece_texts();
  const GrammarVocabulary& vocabulary = piece_vocabulary();
  const std::vector<std::shared_ptr<TokenGrammar>> grammars = {
      json_object_grammar(vocabulary),
      json_schema_grammar(vocabulary, R"({"type":"object","properties":{"name":{"type":"string","maxLength":5},)"
                                      R"("id":{"type":"integer","minimum":-5,"maximum":130}},"required":["id"]})"),
      json_schema_grammar(vocabulary,
                          R"({"type":"array","items":{"type":"string","pattern":"^(a|é|€)*$"},"maxItems":40})"),
      json_schema_grammar(vocabulary, R"({"type":"array","items":{"type":"string","format":"date-time"}})"),
      regex_grammar(vocabulary, "(a{0,40}[\\u00e9-\\u20ac]{3,20}\\u{1f600}?)*"),
      regex_grammar(vocabulary, "(ab|abc|a)*z{2,}"),
      gbnf_grammar(vocabulary, "root ::= \"{\" (root | [^a-b]){0,3} \"}\""),
  };
  for (std::size_t i = 0; i < grammars.size(); ++i) {
    SCOPED_TRACE(i);
    check_masks(*grammars[i], texts, static_cast<unsigned>(i));
  }
}

/// States are told apart only by what may follow: an endless repetition has few.
TEST(TokenMasks, EqualContinuationsAreOneState) {
  const auto grammar = regex_grammar(fixtures::byte_vocabulary(), "(ab|cd)*e?");
  EXPECT_EQ(fixtures::state_after(*grammar, "ab"), fixtures::state_after(*grammar, "abcdab"));
  EXPECT_EQ(fixtures::state_after(*grammar, ""), fixtures::state_after(*grammar, "cd"));
  EXPECT_NE(fixtures::state_after(*grammar, "a"), fixtures::state_after(*grammar, "c"));
  const auto counted = regex_grammar(fixtures::byte_vocabulary(), "[a-z]{0,1000}[a-z0-9]{0,1000}");
  EXPECT_TRUE(fixtures::accepts(*counted, std::string(2000, 'x')));
  EXPECT_FALSE(fixtures::accepts(*counted, std::string(2001, 'x')));
}

TEST(TokenMasks, StopTokensOnlyWhereTheTextMayEnd) {
  const auto grammar = regex_grammar(fixtures::byte_vocabulary(), "ab*");
  EXPECT_FALSE(is_allowed(*grammar, TokenGrammar::kStart, 256));
  EXPECT_EQ(grammar->next(TokenGrammar::kStart, 256), TokenGrammar::kRefused);
  const TokenGrammar::State a = grammar->next(TokenGrammar::kStart, 'a');
  EXPECT_TRUE(grammar->may_end(a));
  EXPECT_TRUE(is_allowed(*grammar, a, 256));
  // After a stop token only stop tokens may come, so that a generator that is ahead has something to sample.
  const TokenGrammar::State end = grammar->next(a, 256);
  EXPECT_TRUE(grammar->may_end(end));
  EXPECT_TRUE(is_allowed(*grammar, end, 256));
  EXPECT_FALSE(is_allowed(*grammar, end, 'b'));
}

TEST(TokenMasks, StrangeCallsAreRefused) {
  const auto grammar = regex_grammar(fixtures::byte_vocabulary(), "a");
  EXPECT_EQ(grammar->next(TokenGrammar::kStart, -1), TokenGrammar::kRefused);
  EXPECT_EQ(grammar->next(TokenGrammar::kStart, 257), TokenGrammar::kRefused);
  EXPECT_EQ(grammar->next(TokenGrammar::kRefused, 'a'), TokenGrammar::kRefused);
  EXPECT_THROW(grammar->next(1'000'000, 'a'), GrammarError);
  EXPECT_THROW(grammar->allowed(-1), GrammarError);
  EXPECT_THROW(grammar->may_end(-2), GrammarError);
  EXPECT_EQ(grammar->vocabulary(), 257);
  EXPECT_EQ(grammar->allowed(TokenGrammar::kStart).size(), 9u);
}

TEST(TokenMasks, VocabulariesAreChecked) {
  EXPECT_THAT(fixtures::refusal_of([] { GrammarVocabulary(std::vector<std::string>(), {}); }),
              HasSubstr("has no tokens"));
  EXPECT_THAT(fixtures::refusal_of([] { GrammarVocabulary({"a"}, {1}); }), HasSubstr("stop token 1 is out of range"));
  EXPECT_THAT(fixtures::refusal_of([] { GrammarVocabulary({"a"}, {-1}); }), HasSubstr("stop token -1"));
  EXPECT_THAT(fixtures::refusal_of([] { GrammarVocabulary({std::string(70'000, 'a')}, {}); }),
              HasSubstr("70000 bytes"));
}

/// What a vocabulary cannot write is not begun.
TEST(TokenMasks, VocabulariesWithoutSomeBytes) {
  const GrammarVocabulary few({"a", "b", "bc", ""}, {3});
  const auto grammar = regex_grammar(few, "a(x|b)|bx|bcd?");
  EXPECT_TRUE(is_allowed(*grammar, TokenGrammar::kStart, 0));
  EXPECT_FALSE(is_allowed(*grammar, TokenGrammar::kStart, 1)) << "c alone is no token";
  EXPECT_TRUE(is_allowed(*grammar, TokenGrammar::kStart, 2));
  EXPECT_THAT(fixtures::refusal_of([&] { regex_grammar(few, "xyz"); }), HasSubstr("no text of this vocabulary"));
  EXPECT_THAT(fixtures::refusal_of([&] { regex_grammar(few, "c"); }), HasSubstr("no text of this vocabulary"));
}

/// SentencePiece: tokens of bytes, spaces, special tokens, ids that only the model has.
TEST(TokenMasks, TextsOfSentencePieceTokens) {
  const data::ModelTokenizer tokenizer(data::fixtures::llama_fields({"\xE2\x96\x81", "\xE2\x96\x81hi", "hi", "a"}));
  const GrammarVocabulary vocabulary(tokenizer, 300);
  EXPECT_EQ(vocabulary.vocabulary(), 300);
  const auto grammar = regex_grammar(vocabulary, "x?( hi|a\n)+");
  const auto allowed = [&](TokenGrammar::State state) {
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < 300; ++i)
      if (is_allowed(*grammar, state, i)) tokens.push_back(i);
    return tokens;
  };
  const std::int32_t byte = 3, word = 259;
  EXPECT_THAT(allowed(TokenGrammar::kStart),
              testing::ElementsAre(byte + ' ', byte + 'a', byte + 'x', word, word + 1, word + 3));
  const TokenGrammar::State hi = grammar->next(TokenGrammar::kStart, word + 1);
  EXPECT_THAT(allowed(hi), testing::ElementsAre(2, byte + ' ', byte + 'a', word, word + 1, word + 3));
  EXPECT_TRUE(grammar->may_end(hi));
  EXPECT_EQ(grammar->next(hi, 1), TokenGrammar::kRefused) << "BOS";
  const TokenGrammar::State a = grammar->next(hi, word + 3);
  EXPECT_THAT(allowed(a), testing::ElementsAre(byte + '\n'));
}

TEST(TokenMasks, WordTokenizersAreRefused) {
  data::Vocabulary three;
  for (const char* word : {"<unk>", "a", "b"}) three.add(word);
  const data::WordTokenizer words(std::move(three));
  EXPECT_THAT(fixtures::refusal_of([&] { GrammarVocabulary vocabulary(words); }), HasSubstr("word tokenizer"));
}

/// 128,000 tokens, most of which may come inside a string.
TEST(TokenMasks, AreFastForLargeVocabularies) {
  std::mt19937 random(3);
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  texts.emplace_back();
  while (texts.size() < 128'000) {
    std::string text(random() % 4 == 0 ? 1 : 0, ' ');
    for (unsigned n = 2 + random() % 9; n > 0; --n)
      text += "etaoinshrdlucmfwypvbgkjqxz\"\\,:{}[]0123"[random() % (random() % 8 == 0 ? 39 : 26)];
    texts.push_back(std::move(text));
  }
  const GrammarVocabulary vocabulary(std::move(texts), {256});
  const auto grammar = json_object_grammar(vocabulary);
  std::string text = "{\"a\":\"";
  double worst = 0;
  for (int depth = 0; depth < 20; ++depth) {
    const TokenGrammar::State state = fixtures::state_after(*grammar, text);
    const auto begin = std::chrono::steady_clock::now();
    const auto mask = grammar->allowed(state);
    const double milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    worst = std::max(worst, milliseconds);
    std::size_t count = 0;
    for (const std::uint32_t word : mask) count += static_cast<std::size_t>(std::popcount(word));
    EXPECT_GT(count, 90'000u);
    text += "x\",\"b\":{\"c\":\"";
  }
  RecordProperty("worst_milliseconds", static_cast<int>(worst));
  std::printf("the slowest of 20 masks of 128,000 tokens took %.2f ms\n", worst);
  EXPECT_LT(worst, 1000) << "far from a few milliseconds";
}

/// A string's length changes no mask until its end is near.
TEST(TokenMasks, LongStringsShareMasks) {
  const auto grammar = json_schema_grammar(piece_vocabulary(), R"({"type":"string","maxLength":100000})");
  const auto* first = grammar->allowed(fixtures::state_after(*grammar, "\"a")).data();
  EXPECT_EQ(grammar->allowed(fixtures::state_after(*grammar, "\"" + std::string(500, 'a'))).data(), first);
  EXPECT_NE(grammar->allowed(fixtures::state_after(*grammar, "\"" + std::string(99'999, 'a'))).data(), first);
}

TEST(TokenMasks, AreDroppedBeyondTheLimit) {
  GrammarLimits limits;
  limits.mask_bytes = 1;
  const auto grammar = json_object_grammar(piece_vocabulary(), limits);
  const TokenGrammar::State a = TokenGrammar::kStart, b = fixtures::state_after(*grammar, "{\"");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(is_allowed(*grammar, a, '{'));
    EXPECT_FALSE(is_allowed(*grammar, a, 'x'));
    EXPECT_TRUE(is_allowed(*grammar, b, 'x'));
  }
}

}  // namespace
}  // namespace etna::models
