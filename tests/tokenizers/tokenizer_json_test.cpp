#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <runner/libraries.h>
#include <tokenizers/model_fixtures.h>

#include <etna/data/tokenizers/bpe_tokenizer.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>
#include <etna/device/error.h>

namespace {

using namespace etna::data;
using namespace etna::data::fixtures;
using etna::FormatError;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

json base() { return json::parse(read_fixture("bpe.json")["cases"][0]["tokenizer_json"].get<std::string>()); }

std::string file_of(const json& seen, json file) {
  if (seen["whole"] == true) return seen["change"].dump();
  for (const auto& item : seen["change"].items()) file[item.key()] = item.value();
  return file.dump();
}

/// Whether one of the texts needs a library that this build lacks, which then has to be said.
bool is_refused(const std::string& file, const json& cases) {
  if (etna::kHasPcre2 && etna::kHasUtf8proc) return false;
  try {
    const auto tokenizer = parse_tokenizer(file, "tokenizer.json");
    for (const auto& probe : cases) tokenizer->encode(probe["text"].get<std::string>());
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), ::testing::AnyOf(HasSubstr("needs PCRE2"), HasSubstr("needs utf8proc")));
    return true;
  }
  return false;
}

TEST(TokenizerJson, EqualsHuggingFacesTokenizers) {
  const json kinds = read_fixture("tokenizer_json.json");
  ASSERT_GE(kinds.size(), 21u) << "make_tokenizer_json.js writes them";
  const json plain = base();
  TemporaryFolder folder;
  std::size_t compared = 0;
  for (const auto& seen : kinds) {
    const std::string text = file_of(seen, plain);
    if (is_refused(text, seen["cases"])) continue;
    ++compared;
    const auto tokenizer = load_tokenizer(folder.write("tokenizer.json", text));
    for (const auto& probe : seen["cases"]) {
      const auto what = probe["text"].get<std::string>();
      const Ids ids = tokenizer->encode(what);
      EXPECT_EQ(ids, probe["ids"].get<Ids>()) << seen["name"] << probe["text"];
      EXPECT_EQ(tokenizer->decode(ids), probe["decoded"].get<std::string>()) << seen["name"] << probe["text"];
      if (what.rfind("<s>", 0) == 0) continue;  // a bos that is there already is not doubled here
      EXPECT_EQ(tokenizer->encode_prompt(what, {.special = SpecialTokens::recognize}), probe["prompt"].get<Ids>())
          << seen["name"] << probe["text"];
    }
    tokenizer->save(folder / "again.json");
    EXPECT_EQ(load_tokenizer(folder / "again.json")->hash(), tokenizer->hash());
  }
  EXPECT_GE(compared, 11u) << "as many need no library";
}

template <typename Change>
void refuses(Change&& change, const char* why) {
  json copy = base();
  // So that BpeTokenizer does not take it.
  copy["pre_tokenizer"] = {{"type", "Metaspace"}};
  change(copy);
  EXPECT_THAT([&] { parse_tokenizer(copy.dump(), "tokenizer.json"); }, ThrowsMessage<FormatError>(HasSubstr(why)));
}

TEST(TokenizerJson, NamesWhatItDoesNotApply) {
  refuses([](json& j) { j["normalizer"] = {{"type", "Nmt"}}; }, "Nmt");
  refuses([](json& j) { j["pre_tokenizer"] = {{"type", "UnicodeScripts"}}; }, "UnicodeScripts");
  refuses([](json& j) { j["pre_tokenizer"] = 3; }, "lacks the string 'type'");
  refuses([](json& j) { j["pre_tokenizer"] = {{"type", "Sequence"}}; }, "lacks the array 'pretokenizers'");
  refuses([](json& j) { j["post_processor"] = {{"type", "Magic"}}; }, "Magic");
  refuses([](json& j) { j["decoder"] = {{"type", "CTC"}}; }, "CTC");
  refuses([](json& j) { j["decoder"] = nullptr; }, "no decoder");
  refuses([](json& j) { j["model"]["type"] = "WordLevel"; }, "WordLevel");
  refuses([](json& j) { j["model"]["dropout"] = 0.1; }, "dropout");
  refuses([](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix");
  refuses([](json& j) { j["model"]["unk_token"] = "<unk>"; }, "not in the vocabulary");
  refuses([](json& j) { j["model"]["vocab"]["a"] = 2000000000; }, "not a valid id among");
  refuses([](json& j) { j["model"]["vocab"]["a"] = -1; }, "not a valid id among");
  refuses([](json& j) { j["model"]["vocab"]["a"] = j["model"]["vocab"]["b"]; }, "two tokens the id");
  refuses([](json& j) { j["model"]["merges"] = json::array({json::array({"a", 1})}); }, "not a pair of tokens");
  refuses([](json& j) { j["model"]["merges"] = json::array({json::array({"z", "z"})}); }, "not in the vocabulary");
  refuses([](json& j) { j["model"]["ignore_merges"] = "yes"; }, "wanted true or false");
  refuses([](json& j) { j["added_tokens"] = json::array({{{"id", 0}}}); }, "lacks");
}

TEST(TokenizerJson, NamesExpressionsThatItDoesNotApply) {
  if (!etna::kHasPcre2) GTEST_SKIP() << "this build has no PCRE2";
  const auto pattern = [](const char* regex) {
    return [regex](json& j) {
      j["pre_tokenizer"] = {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", regex}}}};
    };
  };
  refuses(pattern("(a"), "cannot be used");
  refuses(pattern("[a[bc]]"), "a nested set");
  refuses(pattern("[a-z&&[^b]]"), "&& in a set");
  refuses(pattern("\\w+"), "\\w");
  refuses(pattern("(*UTF)a"), "(*");
}

TEST(TokenizerJson, AnExpressionThatNeverEndsIsStopped) {
  if (!etna::kHasPcre2) GTEST_SKIP() << "this build has no PCRE2";
  json file = base();
  file["pre_tokenizer"] = {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(a+)+$"}}}};
  const auto tokenizer = parse_tokenizer(file.dump(), "tokenizer.json");
  EXPECT_THAT([&] { tokenizer->encode(std::string(64, 'a') + "b"); },
              ThrowsMessage<FormatError>(HasSubstr("gives up")));
}

TEST(TokenizerJson, FilesThatAreNestedTooDeepAreRefused) {
  const std::string deep = "{\"model\": " + std::string(100000, '[');
  EXPECT_THAT([&] { parse_tokenizer(deep, "t"); }, ThrowsMessage<FormatError>(HasSubstr("deep")));
}

TEST(TokenizerJson, TakesTheChatTemplateFromTheFileBeside) {
  json file;
  for (const auto& seen : read_fixture("tokenizer_json.json"))
    if (seen["name"] == "llama 2") file = seen["change"];
  TemporaryFolder folder;
  folder.write("tokenizer.json", file.dump());
  EXPECT_EQ(load_tokenizer(folder / "tokenizer.json")->chat_template(), "");
  folder.write("tokenizer_config.json",
               R"({"bos_token": {"content": "</s>"}, "eos_token": "<s>", "chat_template": [
                   {"name": "tool_use", "template": "no"}, {"name": "default", "template": "<|im_start|>"}]})");
  const auto tokenizer = load_tokenizer(folder / "tokenizer.json");
  EXPECT_EQ(tokenizer->chat_template(), "<|im_start|>");
  EXPECT_EQ(tokenizer->bos(), 2);
  EXPECT_EQ(tokenizer->eos(), 1);
  std::filesystem::create_directory(folder / "alone");
  tokenizer->save(folder / "alone/tokenizer.json");
  EXPECT_EQ(load_tokenizer(folder / "alone/tokenizer.json")->chat_template(), "<|im_start|>");
  folder.write("chat_template.jinja", "[INST]");
  EXPECT_EQ(load_tokenizer(folder / "tokenizer.json")->chat_template(), "[INST]");
  folder.write("tokenizer_config.json", R"({"bos_token": "<nothing>"})");
  EXPECT_THAT([&] { load_tokenizer(folder / "tokenizer.json"); },
              ThrowsMessage<FormatError>(HasSubstr("\"<nothing>\", which is not in the vocabulary")));
  folder.write("tokenizer_config.json", "{");
  EXPECT_THROW(load_tokenizer(folder / "tokenizer.json"), FormatError);
}

/// Hugging Face's transformers set both anew at each call.
TEST(TokenizerJson, TruncationAndPaddingAreNotApplied) {
  for (const bool plain : {true, false}) {
    json file = base();
    if (!plain) file["pre_tokenizer"]["use_regex"] = false;
    const auto wanted = parse_tokenizer(file.dump(), "tokenizer.json");
    file["truncation"] = {{"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
    file["padding"] = {{"strategy", {{"Fixed", 64}}}, {"pad_id", 0}, {"pad_token", "a"}};
    const auto tokenizer = parse_tokenizer(file.dump(), "tokenizer.json");
    EXPECT_EQ(tokenizer->name(), plain ? "bpe" : "tokenizer.json");
    EXPECT_EQ(tokenizer->encode("the text of a test"), wanted->encode("the text of a test"));
  }
}

TEST(TokenizerJson, EndsOfTextsAreThoseOfTheFilesBeside) {
  TemporaryFolder folder;
  BpeTokenizer::train(std::vector<std::string_view>{"a b"},
                      {.vocab_size = 260, .special_tokens = {"</s>", "<stop>", "<other>"}})
      .save(folder / "tokenizer.json");
  folder.write("tokenizer_config.json", R"({"eos_token": "<stop>", "bos_token": null})");
  auto tokenizer = load_tokenizer(folder / "tokenizer.json");
  EXPECT_EQ(tokenizer->eos(), 1);
  EXPECT_EQ(tokenizer->end_tokens(), Ids{1});
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a b")), "a b");
  folder.write("generation_config.json", R"({"bos_token_id": 0, "eos_token_id": [2, 1, 5000]})");
  tokenizer = load_tokenizer(folder / "tokenizer.json");
  EXPECT_EQ(tokenizer->bos(), 0);
  EXPECT_EQ(tokenizer->eos(), 1);
  EXPECT_EQ(tokenizer->end_tokens(), (Ids{1, 2})) << "5000 is no token";
  std::filesystem::remove(folder / "tokenizer_config.json");
  tokenizer = load_tokenizer(folder / "tokenizer.json");
  EXPECT_EQ(tokenizer->eos(), 2);
  folder.write("generation_config.json", R"({"eos_token_id": "</s>"})");
  EXPECT_THAT([&] { load_tokenizer(folder / "tokenizer.json"); },
              ThrowsMessage<FormatError>(HasSubstr("not a token id")));
}

TEST(TokenizerJson, TheEndOfAMessageEndsNoTurnWhereMessagesHaveChannels) {
  const auto ends = [](std::vector<std::string> special) {
    TemporaryFolder folder;
    BpeTokenizer::train(std::vector<std::string_view>{"a b"}, {.vocab_size = 270, .special_tokens = special})
        .save(folder / "tokenizer.json");
    folder.write("tokenizer_config.json", R"({"eos_token": "<stop>"})");
    return load_tokenizer(folder / "tokenizer.json")->end_tokens();
  };
  EXPECT_EQ(ends({"<stop>", "<|start|>", "<|end|>"}), (Ids{0, 2}));
  EXPECT_EQ(ends({"<stop>", "<|return|>", "<|end|>", "<|call|>"}), (Ids{0, 1, 3}));
}

TEST(TokenizerJson, CharactersFallBackToTheBytesThatThereAre) {
  const auto tokenizer = parse_tokenizer(
      R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,
      "decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]},"model":{"type":"Unigram",
      "unk_id":0,"byte_fallback":true,"vocab":[["<unk>",0.0],["a",-1.0],["b",-1.0],["<0x0A>",0.0]]}})",
      "tokenizer.json");
  EXPECT_EQ(tokenizer->encode("a\nb"), (Ids{1, 3, 2}));
  EXPECT_EQ(tokenizer->encode("axb"), (Ids{1, 0, 2}));
}

TEST(TokenizerJson, TokensThatAreNotSpecialAreFoundInAnyText) {
  json file = base();
  const auto size = file["model"]["vocab"].size() + file["added_tokens"].size();
  file["added_tokens"].push_back({{"id", size}, {"content", "<tool>"}, {"special", false}});
  file["added_tokens"].push_back({{"id", size + 1}, {"content", "<|turn|>"}, {"special", true}});
  file["added_tokens"].push_back({{"id", size + 2}, {"content", "<|turn|>!"}, {"special", true}});
  const auto tokenizer = parse_tokenizer(file.dump(), "tokenizer.json");
  const auto id = static_cast<std::int32_t>(size);
  EXPECT_EQ(tokenizer->encode("<tool><|turn|>!<|turn|>"), (Ids{id, id + 2, id + 1})) << "the longest first";
  const Ids typed = tokenizer->encode("<tool><|turn|>", SpecialTokens::as_text);
  EXPECT_EQ(typed[0], id);
  EXPECT_EQ(std::count(typed.begin(), typed.end(), id + 1), 0);
  EXPECT_EQ(tokenizer->decode(typed), "<tool><|turn|>");
  EXPECT_EQ(tokenizer->decode(Ids{id, id + 1}), "<tool>");
}

}  // namespace
