#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include <tokenizers/model_fixtures.h>

#include <etna/data/tokenizers/internal/splits/regex_splitter.h>
#include <etna/data/tokenizers/internal/splits/split_patterns.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/data/tokenizers/pieces/internal/piece_splits.h>
#include <etna/device/error.h>

namespace {

using namespace etna::data;
using namespace etna::data::fixtures;
using etna::FormatError;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using ByteLevelStrings = std::vector<std::string>;

/// The pre-tokens of a text by a rule, made visible by a vocabulary in which words merge completely.
Strings words(const std::string& pre, const std::string& text) {
  ByteLevelStrings pieces;
  regex_splits(split_rule(pre, "test").patterns, "test")(text, true, pieces);
  return pieces;
}

TEST(ByteLevel, SplitsAsEachFamilyDoes) {
  EXPECT_THAT(words("gpt-2", "I'm I'M 1234  x\r\n"),
              ElementsAre("I", "'m", " I", "'", "M", " 1234", " ", " x", "\r\n"));
  EXPECT_THAT(words("llama-bpe", "I'm I'M 1234  x\r\n"),
              ElementsAre("I", "'m", " I", "'M", " ", "123", "4", " ", " x", "\r\n"));
  EXPECT_THAT(words("qwen2", "a 12 3"), ElementsAre("a", " ", "1", "2", " ", "3"));
  EXPECT_THAT(words("llama-bpe", "end.\n\n\n  next"), ElementsAre("end", ".\n\n\n", " ", " next"));
  EXPECT_THAT(words("llama-bpe", "(see"), ElementsAre("(see"));
  EXPECT_THAT(words("qwen2", "\u65E5\u672C, e\u0301!"), ElementsAre("\u65E5\u672C", ",", " e", "\u0301!"));
  EXPECT_THAT(words("gpt-4o", "CamelCase e\u0301t it's"), ElementsAre("Camel", "Case", " e\u0301t", " it's"));
  EXPECT_THAT(words("tekken", "CamelCase 12"), ElementsAre("Camel", "Case", " ", "1", "2"));
  EXPECT_THAT(words("starcoder", "x12"), ElementsAre("x", "1", "2"));
  EXPECT_THAT(words("falcon", "ab--12345"), ElementsAre("ab", "--", "123", "45"));
  EXPECT_THAT(words("deepseek-v3", "12345\u6C34\u6C34!go"), ElementsAre("123", "45", "\u6C34\u6C34", "!go"));
  EXPECT_THAT(words("deepseek-coder", "a\nb, 12"), ElementsAre("a", "\n", "b", ",", " ", "1", "2"));
  EXPECT_THAT(words("default", "x=12345"), ElementsAre("x", "=", "123", "45"));
  EXPECT_THAT(words("llama-bpe", "\u00A0x \u3000 y"), ElementsAre("\u00A0x", " \u3000", " y"));
  EXPECT_THAT(words("llama-bpe", "a\u180Eb"), ElementsAre("a",
                                                          "\u180E"
                                                          "b"))
      << "U+180E is no white space";
}

#ifdef ETNA_HAS_PCRE2
TEST(ByteLevel, SplitsAsRareFamiliesDo) {
  EXPECT_THAT(words("deepseek-llm", "Hi, \u65E5\u672C 123 x  "),
              ElementsAre("Hi", ",", " ", "\u65E5\u672C", " ", "123", " x", "  "));
  EXPECT_THAT(words("deepseek-llm", "a\u01BBb"), ElementsAre("a", "\u01BB", "b")) << "U+01BB has no case";
  EXPECT_THAT(words("qwen35", "e\u0301t 12"), ElementsAre("e\u0301t", " ", "1", "2"));
  EXPECT_THAT(words("bloom", "one, two\u3002x"), ElementsAre("one", ",", " two", "\u3002", "x"));
  EXPECT_THAT(words("viking", "a12, b"), ElementsAre("a", "1", "2", ",", " b"));
  EXPECT_THAT(words("bailingmoe", "I'M 12\n\nx"), ElementsAre("I", "'M", " ", "1", "2", "\n\n", "x"));
  EXPECT_THAT(words("seed-coder", "a!\n 12"), ElementsAre("a", "!", "\n", " ", "1", "2"));
  EXPECT_THAT(words("superbpe", "x12345"), ElementsAre("x", "12", "345"));
  EXPECT_THAT(words("tiny_aya", "Ab 1234567"), ElementsAre("Ab", " ", "1", "234", "567"));
  EXPECT_THAT(words("exaone-moe", "a b 1"), ElementsAre("a b", " ", "1"));
  EXPECT_THAT(words("afmoe", "12345\u65E5x"), ElementsAre("12", "345", "\u65E5", "x"));
  EXPECT_THAT(words("kimi-k2", "CamelCase\u65E5\u672C it's 1234"),
              ElementsAre("Camel", "Case", "\u65E5\u672C", " it's", " ", "123", "4"));
  EXPECT_THAT(words("chameleon", "IMGIMGABZx  b1."), ElementsAre("IMGIMGABZ", "x", "  ", "b", "1", "."));
  EXPECT_THAT(words("minicpm5", "a1234"), ElementsAre("a", "123", "4"));
  EXPECT_THAT(words("grok-2", "a 12"), ElementsAre("a", " ", "1", "2"));
  EXPECT_THAT(words("minimax-m2", "CamelCase"), ElementsAre("Camel", "Case"));
}
#endif

TEST(RegexSplitter, FindsPlainTextInEveryBuild) {
  const auto found = [](const std::string& wanted, const std::string& text) {
    return RegexSplitter(escape_regex(wanted), "test").matches(text);
  };
  using Match = RegexSplitter::Match;
  EXPECT_THAT(found("a.", "xa.a.ab"), ElementsAre(Match(1, 3), Match(3, 5)));
  EXPECT_THAT(found("\\", "a\\\\b"), ElementsAre(Match(1, 2), Match(2, 3)));
  EXPECT_THAT(found(std::string(" \0\u2581\n", 6), std::string("\u2581 \0\u2581\n", 9)), ElementsAre(Match(3, 9)));
  EXPECT_THAT(found("", "abc"), ElementsAre());
  EXPECT_THAT(found("abc", "ab"), ElementsAre());
}

TEST(ByteLevel, AnyBytesComeBack) {
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes += static_cast<char>(i * 167 >> 3);
  for (const char* pre :
       {"gpt-2", "llama-bpe", "qwen2", "deepseek-v3", "deepseek-coder", "falcon", "gpt-4o", "tekken", ""}) {
    const ModelTokenizer tokenizer(byte_fields({{"t", "h"}, {"th", "e"}}, {}, pre));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes) << pre;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("the \r\n  the")), "the \r\n  the") << pre;
  }
}

TEST(ByteLevel, MergesInTheirOrder) {
  const ModelTokenizer tokenizer(byte_fields({{"h", "e"}, {"t", "he"}, {"t", "h"}, {"th", "e"}}, {}, "gpt-2"));
  EXPECT_EQ(tokenizer.encode("the").size(), 1u);
  EXPECT_EQ(tokenizer.encode("the"), (Ids{257}));
  EXPECT_EQ(tokenizer.encode("th"), (Ids{258}));
}

TEST(ByteLevel, Llama3TakesAWholeWordWhateverTheMergesSay) {
  VocabularyFields fields = byte_fields({{"a", "b"}, {"b", "c"}}, {"<|begin_of_text|>"}, "gpt-2");
  fields.tokens.push_back("abc");
  fields.types.push_back(1);
  EXPECT_EQ(ModelTokenizer(fields).encode("abc"), (Ids{256, 'c'}));
  fields.pre = "llama-bpe";
  fields.bos = 258;
  EXPECT_EQ(ModelTokenizer(fields).encode("abc"), (Ids{259}));
  EXPECT_EQ(ModelTokenizer(fields).encode_prompt("abc"), (Ids{258, 259}));
}

TEST(ByteLevel, RefusesRulesThatItDoesNotKnow) {
  EXPECT_THAT([] { ModelTokenizer(byte_fields({}, {}, "brand-new"), "m.gguf"); },
              ThrowsMessage<FormatError>(HasSubstr("m.gguf: unknown pre-tokenizer 'brand-new'")));
}

TEST(ByteLevel, AMegabyteOfOneCharacterTakesNoTime) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const char* c : {"a", " ", "\n"}) merges.emplace_back(c, c);
  for (const char* c : {"a", " ", "\n"}) merges.emplace_back(std::string(2, *c), std::string(2, *c));
  const ModelTokenizer tokenizer(byte_fields(merges, {}, "llama-bpe"));
  for (const char c : {'a', ' ', '\n', '\x80'}) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_GE(tokenizer.encode(std::string(1 << 20, c)).size(), 1u << 18);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  }
}

}  // namespace
