#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include <data/temporary_folder.h>
#include <tokenizers/model_fixtures.h>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/device/error.h>

namespace {

using namespace etna::data;
using namespace etna::data::fixtures;
using etna::FormatError;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void expect_all(const Tokenizer& tokenizer, const nlohmann::json& seen) {
  for (const auto& probe : seen["cases"]) {
    const Ids ids = tokenizer.encode(probe["text"].get<std::string>(), SpecialTokens::as_text);
    EXPECT_EQ(ids, probe["ids"].get<Ids>()) << seen["name"] << probe["text"];
    EXPECT_EQ(tokenizer.decode(ids), probe["decoded"].get<std::string>()) << seen["name"] << probe["text"];
  }
}

TEST(SentencePiece, EqualsSentencePieceItself) {
  const nlohmann::json models = read_fixture("sentencepiece.json");
  ASSERT_EQ(models.size(), 5u) << "make_sentencepiece.py writes them";
  TemporaryFolder folder;
  for (const auto& seen : models) {
    const auto loaded = load_tokenizer(folder.write("tokenizer.model", from_base64(seen["model"])));
    EXPECT_EQ(loaded->size(), seen["size"].get<std::size_t>());
    EXPECT_EQ(loaded->name(), seen["name"].get<std::string>().rfind("unigram", 0) == 0 ? "unigram" : "sentencepiece");
    ASSERT_GT(seen["cases"].size(), 40u);
    expect_all(*loaded, seen);
  }
}

TEST(SentencePiece, ComesBackFromItsOwnFile) {
  TemporaryFolder folder;
  for (const auto& seen : read_fixture("sentencepiece.json")) {
    const ModelTokenizer first(parse_sentencepiece(from_base64(seen["model"]), "m"));
    first.save(folder / "tokenizer.json");
    const auto second = load_tokenizer(folder / "tokenizer.json");
    EXPECT_EQ(second->hash(), first.hash());
    EXPECT_EQ(second->name(), first.name());
    expect_all(*second, seen);
  }
}

TEST(SentencePiece, BytesThatAreNotUtf8ComeBackWhereTheVocabularyHasBytes) {
  const ModelTokenizer tokenizer(llama_fields({"\xE2\x96\x81", "a"}));
  const std::string text = "a\xFF\xC3 \xE2\x82";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  const ModelTokenizer without(parse_sentencepiece(sentencepiece_model("bpe"), "m"));
  EXPECT_EQ(without.encode("a\xFF\xFF"), without.encode("a\xEF\xBF\xBD\xEF\xBF\xBD"));
}

TEST(SentencePiece, MergesTheBestScoreFirstAndOfEqualsTheLeftmost) {
  VocabularyFields fields = llama_fields({"a", "b", "ab", "aa", "\xE2\x96\x81"});
  fields.add_space_prefix = false;
  const Ids words{259, 260, 261, 262};  // a b ab aa
  EXPECT_EQ(ModelTokenizer(fields).encode("aab"), (Ids{words[0], words[2]}));
  std::swap(fields.scores[261], fields.scores[262]);
  EXPECT_EQ(ModelTokenizer(fields).encode("aab"), (Ids{words[3], words[1]}));
  EXPECT_EQ(ModelTokenizer(fields).encode("aaa"), (Ids{words[3], words[0]}));
}

TEST(SentencePiece, UnusedTokensAreStepsOnly) {
  VocabularyFields fields = llama_fields({"a", "b", "c", "ab", "abc"});
  fields.add_space_prefix = false;
  fields.types[262] = static_cast<std::int32_t>(TokenType::unused);
  const ModelTokenizer tokenizer(fields);
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(263));
  EXPECT_THAT(tokenizer.encode("abab"), ElementsAre(259, 260, 259, 260));
}

TEST(SentencePiece, PutsOneSpaceBeforeATextAndTakesItAwayAgain) {
  VocabularyFields fields = llama_fields({"\xE2\x96\x81", "a",
                                          "\xE2\x96\x81"
                                          "a"});
  const ModelTokenizer with(fields);
  EXPECT_THAT(with.encode("a"), ElementsAre(261));
  for (const char* text : {"a", " a", "  a", "a a ", ""}) EXPECT_EQ(with.decode(with.encode(text)), text);
  fields.add_space_prefix = false;
  const ModelTokenizer without(fields);
  EXPECT_THAT(without.encode("a"), ElementsAre(260));
  for (const char* text : {"a", " a", "  a", "a a ", ""}) EXPECT_EQ(without.decode(without.encode(text)), text);
}

TEST(SentencePiece, SpecialTokensAreFoundOnlyWhenAskedFor) {
  const ModelTokenizer tokenizer(llama_fields({"\xE2\x96\x81", "a"}));
  EXPECT_THAT(tokenizer.encode("<s>a</s>", SpecialTokens::recognize), ElementsAre(1, 259, 260, 2));
  const Ids typed = tokenizer.encode("<s>a</s>", SpecialTokens::as_text);
  EXPECT_EQ(std::count(typed.begin(), typed.end(), 1), 0);
  EXPECT_EQ(tokenizer.decode(typed), "<s>a</s>");
  EXPECT_EQ(tokenizer.encode_prompt("a</s>"), [&] {
    Ids ids = tokenizer.encode("a</s>", SpecialTokens::as_text);
    ids.insert(ids.begin(), 1);
    return ids;
  }());
  EXPECT_THAT(tokenizer.encode_prompt("a", {.add_special = false}), ElementsAre(259, 260));
  EXPECT_THAT(tokenizer.encode_prompt("<s>a", {.special = SpecialTokens::recognize}), ElementsAre(1, 259, 260))
      << "a text that begins with bos does not get another";
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_THAT(tokenizer.end_tokens(), ElementsAre(2));
  EXPECT_THAT(tokenizer.special_tokens(), ElementsAre(1, 2));
}

TEST(SentencePiece, ReadsLlama2cFiles) {
  const auto word = [](std::uint32_t value) { return std::string(reinterpret_cast<const char*>(&value), 4); };
  std::string file = word(6);
  const auto add = [&](const std::string& text, float score) {
    std::uint32_t bits;
    std::memcpy(&bits, &score, 4);
    file += word(bits) + word(static_cast<std::uint32_t>(text.size())) + text;
  };
  for (const char* text : {"<unk>", "\n<s>\n"}) add(text, 0);
  add("\n</s>", 0);
  const VocabularyFields llama = llama_fields({});
  for (std::size_t i = 3; i < llama.tokens.size(); ++i) add(llama.tokens[i], 0);
  for (const char* text : {" ", "h", "i", " h", "hi", " hi"}) add(text, -1.0f * static_cast<float>(file.size()));
  TemporaryFolder folder;
  const auto tokenizer = load_tokenizer(folder.write("tokenizer.bin", file));
  EXPECT_EQ(tokenizer->size(), 265u);
  EXPECT_THAT(tokenizer->encode_prompt("hi hi\n"), ElementsAre(1, 264, 264, 13));
  EXPECT_EQ(tokenizer->decode(Ids{1, 264, 264, 13}), "hi hi\n");
  for (std::size_t size = 0; size < file.size(); ++size) {
    try {
      parse_llama2c_tokenizer(file.substr(0, size), "cut.bin");
    } catch (const FormatError&) {
      continue;
    }
    EXPECT_GT(size, 40u) << "only a file that ends with a token can be read";
  }
}

TEST(SentencePiece, AMegabyteOfOneLetterTakesNoTime) {
  const std::string run(1 << 20, 'a');
  for (const char* name : {"bpe with bytes", "unigram"}) {
    const ModelTokenizer tokenizer(parse_sentencepiece(sentencepiece_model(name), name));
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_GT(tokenizer.encode(run).size(), 1u << 18);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << name;
  }
}

TEST(SentencePiece, SaysWhichKindsItDoesNotRun) {
  // Field 2 (trainer) with field 3 (model_type) = 3, word; field 1 is a piece "a".
  const std::string words(
      "\x0A\x03\x0A\x01"
      "a"
      "\x12\x02\x18\x03",
      9);
  EXPECT_THAT([&] { parse_sentencepiece(words, "w.model"); }, ThrowsMessage<FormatError>(HasSubstr("type word")));
  EXPECT_THAT([&] { parse_sentencepiece("", "w.model"); }, ThrowsMessage<FormatError>(HasSubstr("no pieces")));
}

}  // namespace
