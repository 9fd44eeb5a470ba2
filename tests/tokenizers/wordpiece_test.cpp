#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <runner/libraries.h>
#include <nlohmann/json.hpp>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/device/error.h>

// BERT's WordPiece, in each kind of file, and pairs of texts.
namespace {

using namespace etna::data;
using etna::FormatError;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Ids = std::vector<std::int32_t>;

enum Word : std::int32_t {
  kPad,
  kUnk,
  kCls,
  kSep,
  kMask,
  kUn,
  kAff,
  kAble,
  kHello,
  kWorld,
  kBang,
  kComma,
  kNi,
  kHao,
  kCafe,
  kS,
  kDot,
  kUpperHello
};
const std::vector<std::string> kWords = {"[PAD]",  "[UNK]",  "[CLS]", "[SEP]", "[MASK]", "un",
                                         "##aff",  "##able", "hello", "world", "!",      ",",
                                         "\u4F60", "\u597D", "cafe",  "##s",   ".",      "Hello"};

json wordpiece_file() {
  json vocab = json::object(), added = json::array();
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    vocab[kWords[i]] = i;
    if (i < 5) added.push_back({{"id", i}, {"content", kWords[i]}, {"special", true}, {"normalized", false}});
  }
  return {{"added_tokens", added},
          {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}, {"strip_accents", nullptr}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single",
             {{{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}},
              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
              {{"SpecialToken", {{"id", "[SEP]"}, {"type_id", 0}}}}}},
            {"pair",
             {{{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}},
              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
              {{"SpecialToken", {{"id", "[SEP]"}, {"type_id", 0}}}},
              {{"Sequence", {{"id", "B"}, {"type_id", 1}}}},
              {{"SpecialToken", {{"id", "[SEP]"}, {"type_id", 1}}}}}},
            {"special_tokens", {{"[CLS]", {{"ids", {kCls}}}}, {"[SEP]", {{"ids", {kSep}}}}}}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocab}}}};
}

std::unique_ptr<Tokenizer> wordpiece() { return parse_tokenizer(wordpiece_file().dump(), "tokenizer.json"); }

/// The same vocabulary as GGUF files have it.
VocabularyFields wordpiece_fields() {
  VocabularyFields fields;
  fields.model = "bert";
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    const std::string& word = kWords[i];
    fields.tokens.push_back(i < 5 ? word : word.starts_with("##") ? word.substr(2) : "\u2581" + word);
    fields.types.push_back(i < 5 ? 3 : 1);
  }
  return fields;
}

struct Probe {
  std::string text;
  Ids ids;
  bool ascii = true;
};
const std::vector<Probe> kProbes = {{"UNaffable", {kUn, kAff, kAble}},
                                    {"Hello,  World!", {kHello, kComma, kWorld, kBang}},
                                    {"hello\tworld\n", {kHello, kWorld}},
                                    {"he\x01llo", {kHello}},
                                    {"unhello", {kUnk}},
                                    {"xyz hello", {kUnk, kHello}},
                                    {"cafes", {kCafe, kS}},
                                    {std::string(101, 'u'), {kUnk}},
                                    {"", {}},
                                    {"caf\u00E9", {kCafe}, false},
                                    {"cafe\u0301 .", {kCafe, kDot}, false},
                                    {"\u4F60\u597Dhello\u4F60", {kNi, kHao, kHello, kNi}, false},
                                    {"he\u200Bllo\uFFFD\u00A0world", {kHello, kWorld}, false},
                                    {"hello\u3000world\u2028.", {kHello, kWorld, kDot}, false}};

void expect_probes(const Tokenizer& tokenizer) {
  for (const Probe& probe : kProbes) {
    if (!probe.ascii && !etna::kHasUtf8proc) continue;
    EXPECT_EQ(tokenizer.encode(probe.text, SpecialTokens::as_text), probe.ids) << probe.text;
  }
  EXPECT_EQ(tokenizer.encode("hello[MASK]world"), (Ids{kHello, kMask, kWorld}));
  EXPECT_EQ(tokenizer.decode(Ids{kCls, kUn, kAff, kAble, kComma, kHello, kBang, kWorld, kSep}),
            "unaffable, hello! world");
  EXPECT_EQ(tokenizer.encode_prompt("hello world"), (Ids{kCls, kHello, kWorld, kSep}));
}

TEST(WordPiece, ReadsTextAsBertDoes) { expect_probes(*wordpiece()); }

TEST(WordPiece, IsReadFromAVocabularyOfLines) {
  const TemporaryFolder folder;
  {
    std::ofstream out(folder / "vocab.txt");
    for (const std::string& word : kWords) out << word << "\n";
  }
  const auto tokenizer = load_tokenizer(folder / "vocab.txt");
  expect_probes(*tokenizer);
  EXPECT_EQ(tokenizer->size(), kWords.size());
  EXPECT_EQ(tokenizer->special_tokens(), (Ids{kPad, kUnk, kCls, kSep, kMask}));
  std::ofstream(folder / "tokenizer_config.json") << R"({"do_lower_case": false})";
  EXPECT_EQ(load_tokenizer(folder / "vocab.txt")->encode("Hello hello"), (Ids{kUpperHello, kHello}));
  std::ofstream(folder / "vocab.txt") << "[CLS]\n[SEP]\nhello\n";
  EXPECT_THAT([&] { load_tokenizer(folder / "vocab.txt"); },
              ThrowsMessage<FormatError>(HasSubstr("not a vocabulary of WordPiece: it has no token '[UNK]'")));
}

TEST(WordPiece, IsReadFromTheFieldsOfGguf) {
  const ModelTokenizer tokenizer(wordpiece_fields());
  expect_probes(tokenizer);
  EXPECT_EQ(tokenizer.name(), "wordpiece");
  const auto again = parse_tokenizer(tokenizer.json(), "vocabulary");
  expect_probes(*again);
  EXPECT_EQ(again->hash(), tokenizer.hash());
}

TEST(WordPiece, SaysWhatIsWrongWithItsFile) {
  const auto refusal = [](const char* field, const json& value) -> std::string {
    json file = wordpiece_file();
    file["model"][field] = value;
    try {
      parse_tokenizer(file.dump(), "tokenizer.json");
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("unk_token", "<none>"), HasSubstr("names the token \"<none>\""));
  EXPECT_THAT(refusal("max_input_chars_per_word", 0), HasSubstr("wanted at least 1"));
  EXPECT_THAT(refusal("type", "WordLevel"), HasSubstr("wanted BPE, Unigram or WordPiece"));
}

TEST(TokenPairs, FollowTheTemplate) {
  const ModelTokenizer from_gguf(wordpiece_fields());
  const auto from_json = wordpiece();
  for (const Tokenizer* tokenizer : std::initializer_list<const Tokenizer*>{from_json.get(), &from_gguf}) {
    const TokenPair pair = tokenizer->encode_pair("hello", "world !");
    EXPECT_EQ(pair.ids, (Ids{kCls, kHello, kSep, kWorld, kBang, kSep}));
    EXPECT_EQ(pair.types, (Ids{0, 0, 0, 1, 1, 1}));
    const TokenPair plain = tokenizer->encode_pair("hello", "world", {.add_special = false});
    EXPECT_EQ(plain.ids, (Ids{kHello, kWorld}));
    EXPECT_EQ(plain.types, (Ids{0, 1}));
  }
  json roberta = wordpiece_file();
  roberta["post_processor"] = {{"type", "RobertaProcessing"}, {"cls", {"[CLS]", kCls}}, {"sep", {"[SEP]", kSep}}};
  const TokenPair pair = parse_tokenizer(roberta.dump(), "tokenizer.json")->encode_pair("hello", "world");
  EXPECT_EQ(pair.ids, (Ids{kCls, kHello, kSep, kSep, kWorld, kSep}));
  EXPECT_EQ(pair.types, (Ids{0, 0, 0, 0, 0, 0}));
  json none = wordpiece_file();
  none["post_processor"].erase("pair");
  EXPECT_THAT([&] { parse_tokenizer(none.dump(), "tokenizer.json")->encode_pair("a", "b"); },
              ThrowsMessage<FormatError>(HasSubstr("does not say how pairs of texts are written")));
}

TEST(TokenPairs, AreCutToALength) {
  const auto tokenizer = wordpiece();
  const auto ids_of = [&](const char* first, const char* second, std::size_t most) {
    return tokenizer->encode_pair(first, second, {.most = most}).ids;
  };
  const char* four = "hello world hello world";
  EXPECT_EQ(ids_of("un", four, 8).size(), 8u);
  EXPECT_EQ(ids_of("un", four, 6), (Ids{kCls, kUn, kSep, kHello, kWorld, kSep}));
  EXPECT_EQ(ids_of(four, "un", 6), (Ids{kCls, kHello, kWorld, kSep, kUn, kSep}));
  EXPECT_EQ(ids_of(four, four, 8), (Ids{kCls, kHello, kWorld, kSep, kHello, kWorld, kHello, kSep}));
  EXPECT_EQ(ids_of(four, four, 3), (Ids{kCls, kSep, kSep}));
  EXPECT_EQ(tokenizer->encode_prompt(four, {.most = 5}), (Ids{kCls, kHello, kWorld, kHello, kSep}));
  EXPECT_EQ(tokenizer->encode_prompt(four, {.add_special = false, .most = 2}), (Ids{kHello, kWorld}));
}

// Some vocabularies lack bytes, which their authors' tokenizers leave out.
TEST(ByteLevel, LeavesOutBytesWithoutAToken) {
  VocabularyFields fields;
  fields.model = "gpt2";
  fields.tokens = {"a", "b", "ab"};
  fields.merges = {"a b"};
  const ModelTokenizer tokenizer(fields);
  EXPECT_THAT(tokenizer.encode("axb\xC3\xA9"), ElementsAre(2));
  EXPECT_THAT(tokenizer.encode("xy"), ElementsAre());
}

}  // namespace
