#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/device/error.h>

namespace {

using namespace etna::data;
using etna::FormatError;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// As Gemma 4's GGUF files: <bos>, <turn|>, a user-defined token, bytes, then characters and what they merge to.
VocabularyFields piece_fields() {
  VocabularyFields fields;
  fields.model = "gemma4";
  fields.tokens = {"<bos>", "<turn|>", "<mark>"};
  fields.types = {3, 3, 4};
  for (int byte = 0; byte < 256; ++byte) {
    fields.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    fields.types.push_back(6);
  }
  for (const char* token : {"\u2581", "a", "b", "c", "\n", "\n\n", "\n\n\n", "ab", "bc", "\u2581a", "\u2581ab"})
    fields.tokens.push_back(token);
  fields.types.resize(fields.tokens.size(), 1);
  fields.merges = {"b c", "a b", "\u2581 a", "\u2581 ab", "\n \n"};
  fields.bos = 0;
  fields.eos = 1;
  fields.add_bos = false;
  return fields;
}
constexpr std::int32_t kFirst = 3 + 256;
enum Piece : std::int32_t { kSpace = kFirst, kA, kB, kC, kLine, kTwo, kThree, kAB, kBC, kSpaceA, kSpaceAB };

TEST(PieceBpe, MergesCharactersByTheList) {
  const ModelTokenizer tokenizer(piece_fields());
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(kA, kBC)) << "the first merge in the list wins";
  EXPECT_THAT(tokenizer.encode("ab ab"), ElementsAre(kAB, kSpaceAB)) << "no space is put in front";
  EXPECT_THAT(tokenizer.encode("a<mark>  a"), ElementsAre(kA, 2, kSpace, kSpaceA));
  EXPECT_THAT(tokenizer.encode("\u00E9"), ElementsAre(3 + 0xC3, 3 + 0xA9));
  EXPECT_THAT(tokenizer.encode(""), ElementsAre());
  EXPECT_EQ(tokenizer.name(), "bpe of characters");
}

TEST(PieceBpe, TakesRunsOfNewlinesWhole) {
  const ModelTokenizer tokenizer(piece_fields());
  EXPECT_THAT(tokenizer.encode("\n\n\na\n"), ElementsAre(kThree, kA, kLine)) << "no merge makes three";
  EXPECT_THAT(tokenizer.encode("\n\n\n\n\n"), ElementsAre(kTwo, kTwo, kLine));
}

TEST(PieceBpe, DecodesWhatItEncodes) {
  const ModelTokenizer tokenizer(piece_fields());
  for (const char* text : {"", " ab  c", "a\n\nb\u00E9\u65E5", "\n", "a<mark>b", "\u2581"}) {
    const std::string expected = std::string_view(text) == "\u2581" ? " " : text;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), expected);
  }
}

TEST(PieceBpe, BeginsPromptsWithBosWhateverTheFileSays) {
  const ModelTokenizer tokenizer(piece_fields());
  EXPECT_THAT(tokenizer.encode_prompt("a"), ElementsAre(0, kA));
}

TEST(PieceBpe, RefusesDamagedVocabularies) {
  VocabularyFields fields = piece_fields();
  fields.merges.push_back("a q");
  EXPECT_THAT([&] { ModelTokenizer(fields, "test"); }, ThrowsMessage<FormatError>(HasSubstr("merge 5 is not a pair")));
  fields = piece_fields();
  fields.tokens[3] = "<0x0>";
  EXPECT_THAT([&] { ModelTokenizer(fields, "test"); }, ThrowsMessage<FormatError>(HasSubstr("byte token 3")));
}

}  // namespace
