#include <etna/data/tokenizers/word_tokenizer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

WordTokenizer tokenizer(std::initializer_list<const char*> words) {
  Vocabulary vocabulary;
  for (const char* word : words) vocabulary.add(word);
  return WordTokenizer(vocabulary);
}

TEST(WordTokenizer, NamesTheUnknownWordsOfAPrompt) {
  const WordTokenizer words = tokenizer({"the", "<unk>", "cat", "<eos>"});
  std::vector<std::string> unknown;
  EXPECT_THAT(words.encode("the dog\nthe dog cat zebra", SpecialTokens::recognize, &unknown),
              ElementsAre(0, 1, 3, 0, 1, 2, 1));
  EXPECT_THAT(unknown, ElementsAre("dog", "zebra"));
  EXPECT_THAT(words.special_tokens(), ElementsAre(1, 3));
  EXPECT_THAT(words.encode("the <eos>", SpecialTokens::as_text), ElementsAre(0, 1));
  EXPECT_THAT(words.encode(""), ElementsAre());
  EXPECT_THROW(tokenizer({"the"}).encode("cat"), FormatError);
}

TEST(WordTokenizer, ComesBackFromItsFile) {
  TemporaryFolder folder;
  const WordTokenizer saved = tokenizer({"Größe", "\"", "<unk>", "\\"});
  saved.save(folder / "tokenizer.json");
  const auto loaded = load_tokenizer(folder / "tokenizer.json");
  EXPECT_EQ(loaded->hash(), saved.hash());
  EXPECT_EQ(loaded->name(), "word");
  EXPECT_EQ(loaded->token(0), "Größe");
  EXPECT_NE(saved.hash(), tokenizer({"Größe", "\"", "<unk>"}).hash());
}

TEST(WordTokenizer, RefusesDamagedFiles) {
  TemporaryFolder folder;
  const auto refuses = [&](const char* text, const char* why) {
    EXPECT_THAT([&] { load_tokenizer(folder.write("bad", text)); }, ThrowsMessage<FormatError>(HasSubstr(why))) << text;
  };
  refuses("", "invalid or cut off JSON");
  refuses("[]", "wanted a JSON object");
  refuses("{}", "format");
  refuses(R"({"format": 1})", "format");
  refuses(R"({"format": "etna.word_tokenizer", "version": 2})", "version");
  refuses(R"({"format": "etna.word_tokenizer", "version": 1, "words": {}})", "words");
  refuses(R"({"format": "etna.word_tokenizer", "version": 1, "words": ["a", "a"]})", "duplicate");
  refuses(R"({"format": "etna.word_tokenizer", "version": 1, "words": ["a b"]})", "white space");
  refuses(R"({"format": "etna.word_tokenizer", "version": 1, "words": [1]})", "not a string");
  EXPECT_THROW(tokenizer({"\xFF"}).save(folder / "x"), FormatError);
}

}  // namespace
}  // namespace etna::data
