#include <etna/data/tokenizers/bpe_tokenizer.h>

#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <data/temporary_folder.h>
#include <etna/data/tokenizers/internal/splits/pre_tokenizer.h>
#include <etna/data/tokenizers/internal/unicode/byte_characters.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Strings = std::vector<std::string>;

Strings words(std::string_view text) {
  Strings all;
  for_each_word(text, [&](std::string_view word) { all.emplace_back(word); });
  return all;
}

BpeTokenizer train(std::string_view text, std::int64_t size, std::int64_t least = 0, Strings special = {}) {
  return BpeTokenizer::train(std::vector<std::string_view>{text}, {size, least, std::move(special)});
}

void expect_round_trip(const BpeTokenizer& tokenizer, const std::string& text) {
  EXPECT_TRUE(tokenizer.decode(tokenizer.encode(text)) == text) << text.substr(0, 50);
  EXPECT_TRUE(tokenizer.decode(tokenizer.encode(text, SpecialTokens::as_text)) == text) << text.substr(0, 50);
}

/// Merges by counting every pair anew; for texts in which no two merges give the same bytes.
Strings slow_merges(std::string_view text, std::size_t count) {
  const auto order = [](const std::string& token) { return to_characters(token); };
  std::vector<Strings> split;
  for (const std::string& word : words(text)) {
    Strings symbols;
    for (char c : word) symbols.emplace_back(1, c);
    split.push_back(symbols);
  }
  std::map<std::string, std::size_t> rank;
  Strings made;
  const auto id = [&](const std::string& token) {
    const auto merged = rank.find(token);
    return merged != rank.end() ? "\xFF" + std::string(1, static_cast<char>(merged->second >> 8)) +
                                      static_cast<char>(merged->second & 255)
                                : order(token);
  };
  while (made.size() < count) {
    std::map<std::pair<std::string, std::string>, int> pairs;
    for (const Strings& s : split)
      for (std::size_t i = 0; i + 1 < s.size(); ++i) ++pairs[{s[i], s[i + 1]}];
    auto best = pairs.end();
    for (auto p = pairs.begin(); p != pairs.end(); ++p) {
      if (best == pairs.end() || p->second > best->second ||
          (p->second == best->second && std::pair(id(p->first.first), id(p->first.second)) <
                                            std::pair(id(best->first.first), id(best->first.second))))
        best = p;
    }
    if (best == pairs.end()) break;
    const auto [left, right] = best->first;
    made.push_back(to_characters(left) + " " + to_characters(right));
    rank.emplace(left + right, made.size());
    for (Strings& s : split) {
      Strings next;
      for (std::size_t i = 0; i < s.size(); ++i) {
        const bool here = i + 1 < s.size() && s[i] == left && s[i + 1] == right;
        next.push_back(here ? left + right : s[i]);
        i += here;
      }
      s = next;
    }
  }
  return made;
}

Strings merges_of(const BpeTokenizer& tokenizer) {
  Strings all;
  for (const auto& merge : tokenizer.merges())
    all.push_back(to_characters(tokenizer.token(merge.first)) + " " + to_characters(tokenizer.token(merge.second)));
  return all;
}

TEST(PreTokenizer, SplitsAsTheRegularExpressionOfGpt2) {
  EXPECT_THAT(words("Don't stop"), ElementsAre("Don", "'t", " stop"));
  EXPECT_THAT(words("we'll 'S x''s"), ElementsAre("we", "'ll", " '", "S", " x", "''", "s"));
  EXPECT_THAT(words("a  b"), ElementsAre("a", " ", " b"));
  EXPECT_THAT(words("a \n b\n\n"), ElementsAre("a", " \n", " b", "\n\n"));
  EXPECT_THAT(words("a\nb\t\tc"), ElementsAre("a", "\n", "b", "\t", "\t", "c"));
  EXPECT_THAT(words(" "), ElementsAre(" "));
  EXPECT_THAT(words("x12½ 3.5!"), ElementsAre("x", "12½", " 3", ".", "5", "!"));
  EXPECT_THAT(words("Größe 水時間 вода"), ElementsAre("Größe", " 水時間", " вода"));
  EXPECT_THAT(words("e\u0301te 🙂🙂x\u3000y"), ElementsAre("e", "\u0301", "te", " 🙂🙂", "x", "\u3000", "y"));
  EXPECT_THAT(words("a\xFF\xC3 b"), ElementsAre("a", "\xFF\xC3", " b"));
  EXPECT_THAT(words(""), ElementsAre());
}

TEST(BpeTokenizer, LearnsTheMergesOfAPlainReference) {
  const std::string text = "low lower lowest newer newest wide wider widest don't 12 123 1234 Größe größer größte";
  const BpeTokenizer tokenizer = train(text, 256 + 30);
  EXPECT_EQ(merges_of(tokenizer), slow_merges(text, 30));
}

TEST(BpeTokenizer, StopsAtPairsThatAreTooRare) {
  EXPECT_EQ(train("abab ab xy", 1000, 2).size(), 257u);  // "a b" alone occurs twice
  EXPECT_GT(train("abab ab xy", 1000, 1).size(), 258u);
}

TEST(BpeTokenizer, GivesBackAnyBytes) {
  std::string every;
  for (int i = 0; i < 256; ++i) every += static_cast<char>(i);
  const BpeTokenizer tokenizer = train("the theme of the thesis, \xC3\xA9t\xC3\xA9 " + every, 400, 0, {"<|end|>"});
  for (const std::string& text :
       {std::string(), std::string("t"), every, every + every, std::string(3, '\0'), std::string("\xC3"),
        std::string("the\xF0\x9F\x99 them<|end|><|end|"), std::string(1000, ' '), std::string(100, '\xE9')})
    expect_round_trip(tokenizer, text);
}

TEST(BpeTokenizer, RecognizesSpecialTokensUnlessToldNotTo) {
  const BpeTokenizer tokenizer = train("abc abc", 300, 0, {"<a>", "<a><b>"});
  EXPECT_THAT(tokenizer.encode("<a><b><a>"), ElementsAre(1, 0));
  EXPECT_THAT(tokenizer.special_tokens(), ElementsAre(0, 1));
  for (const std::int32_t id : tokenizer.encode("<a><b>", SpecialTokens::as_text)) EXPECT_GT(id, 1);
}

TEST(BpeTokenizer, TakesHugeWordsInReasonableTime) {
  const std::string letters(1 << 20, 'a');
  const BpeTokenizer one = train(letters, 300);
  EXPECT_EQ(one.encode(letters).size(), 1u);
  std::string random(5 << 20, ' ');
  std::uint32_t state = 1;
  for (char& c : random) c = static_cast<char>('a' + (state = state * 1664525 + 1013904223) / 0x0CCCCCCC % 20);
  const BpeTokenizer many = train(random, 270);
  EXPECT_EQ(many.merges().size(), 14u);
  expect_round_trip(many, random);
  expect_round_trip(many, letters);
}

TEST(BpeTokenizer, EncodesLongWordsAsShortOnes) {
  const BpeTokenizer tokenizer = train(std::string("abcabcababcbcacba aabbcc abcabc"), 300);
  // The rule itself: again and again the leftmost of the pairs with the lowest rank.
  const auto plain = [&](const std::string& word) {
    std::vector<std::int32_t> ids;
    for (char c : word) ids.push_back(tokenizer.encode(std::string(1, c))[0]);
    for (const auto& merge : tokenizer.merges()) {
      const std::string joined = std::string(tokenizer.token(merge.first)) + std::string(tokenizer.token(merge.second));
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        if (ids[i] != merge.first || ids[i + 1] != merge.second) continue;
        for (std::int32_t id = 0; id < static_cast<std::int32_t>(tokenizer.size()); ++id)
          if (tokenizer.token(id) == joined) ids[i] = id;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
    return ids;
  };
  std::string word;
  std::uint32_t state = 7;
  for (int i = 0; i < 300; ++i) word += static_cast<char>('a' + (state = state * 1664525 + 1013904223) / 0x55555556);
  EXPECT_EQ(tokenizer.encode(word), plain(word));
  EXPECT_EQ(tokenizer.encode(word.substr(0, 40)), plain(word.substr(0, 40)));
}

TEST(BpeTokenizer, EncodesChunksOfALargeTextAsTheWhole) {
  std::string text;
  for (int i = 0; i < 40000; ++i) text += "line " + std::to_string(i * 7919) + " don't<|end|>\n  stop\n";
  const BpeTokenizer tokenizer = train(text.substr(0, 20000), 500, 0, {"<|end|>"});
  std::vector<std::int32_t> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find("<|end|>", at);
    const std::string piece = text.substr(at, end - at);
    const auto ids = tokenizer.encode(piece);
    pieces.insert(pieces.end(), ids.begin(), ids.end());
    if (end == std::string::npos) break;
    pieces.push_back(0);
    at = end + 7;
  }
  EXPECT_EQ(tokenizer.encode(text), pieces);
}

TEST(BpeTokenizer, RefusesVocabulariesAndSpecialTokensThatCannotBe) {
  EXPECT_THAT([] { train("abc", 255); }, ThrowsMessage<FormatError>(HasSubstr("wanted at least 256")));
  EXPECT_THAT([] { train("abc", 257, 0, {"<a>", "<b>"}); }, ThrowsMessage<FormatError>(HasSubstr("258")));
  EXPECT_THROW(train("abc", std::int64_t{1} << 40), FormatError);
  EXPECT_THROW(train("abc", 300, 0, {""}), FormatError);
  EXPECT_THROW(train("abc", 300, 0, {"a"}), FormatError);
  EXPECT_THROW(train("abc", 300, 0, {"\xFF"}), FormatError);
  EXPECT_THROW(train("abc", 300, 0, {"<a>", "<a>"}), FormatError);
  EXPECT_EQ(train("", 300).size(), 256u);
  EXPECT_EQ(train("q", 300).size(), 256u);
  EXPECT_EQ(train("abc abc", 300, 0, {"abc"}).encode("abc"), std::vector<std::int32_t>{0});
  EXPECT_THROW(train("q", 300).decode(std::vector<std::int32_t>{256}), FormatError);
  EXPECT_THROW(train("q", 300).token(-1), FormatError);
}

TEST(BpeTokenizer, ComesBackFromItsFile) {
  TemporaryFolder folder;
  const BpeTokenizer saved = train("the theme of the thesis, été \xFF\xFE", 300, 0, {"<|end|>", "é水"});
  saved.save(folder / "tokenizer.json");
  const auto loaded = load_tokenizer(folder / "tokenizer.json");
  EXPECT_EQ(loaded->hash(), saved.hash());
  EXPECT_EQ(loaded->name(), "bpe");
  EXPECT_EQ(loaded->encode("the été<|end|>é水\xFF"), saved.encode("the été<|end|>é水\xFF"));
  EXPECT_NE(saved.hash(), train("the theme of the thesis, été \xFF\xFE", 300, 0, {"<|end|>"}).hash());
}

TEST(BpeTokenizer, RefusesDamagedFiles) {
  TemporaryFolder folder;
  train("the theme of the thesis", 270, 0, {"<|end|>"}).save(folder / "whole");
  std::stringstream bytes;
  bytes << std::ifstream(folder / "whole").rdbuf();
  const std::string whole = bytes.str();
  for (std::size_t size = 0; size + 2 < whole.size(); size += 97)
    EXPECT_THROW(load_tokenizer(folder.write("cut", whole.substr(0, size))), FormatError) << size;
  using nlohmann::json;
  const auto refuses = [&](auto&& change, const char* why) {
    json copy = json::parse(whole);
    change(copy);
    EXPECT_THAT([&] { BpeTokenizer::load(folder.write("bad", copy.dump())); },
                ThrowsMessage<FormatError>(HasSubstr(why)));
  };
  refuses([](json& j) { j["model"] = 3; }, "lacks the object 'model'");
  refuses([](json& j) { j["model"]["type"] = "WordPiece"; }, "not BPE");
  refuses([](json& j) { j["model"]["vocab"] = json::array(); }, "'vocab'");
  refuses([](json& j) { j["model"]["vocab"]["a"] = -1; }, "not a token id");
  refuses([](json& j) { j["model"]["vocab"]["a"] = 1e30; }, "not a token id");
  refuses([](json& j) { j["model"]["vocab"]["a"] = 2000000000; }, "no gaps");
  refuses([](json& j) { j["model"]["vocab"]["a"] = j["model"]["vocab"]["b"]; }, "two tokens have id");
  refuses([](json& j) { j["model"]["vocab"].erase("a"); }, "");
  refuses([](json& j) { j["model"]["vocab"]["水"] = j["model"]["vocab"].size(); }, "does not represent a byte");
  refuses([](json& j) { j["model"]["merges"] = json::array({json::array({"a", 1})}); }, "not a pair of tokens");
  refuses([](json& j) { j["model"]["merges"] = json::array({"a"}); }, "not a pair of tokens");
  refuses([](json& j) { j["model"]["merges"] = json::array({json::array({"z", "z"})}); }, "not in the vocabulary");
  refuses([](json& j) { j["model"]["unk_token"] = "<unk>"; }, "unk_token");
  refuses([](json& j) { j["normalizer"] = {{"type", "NFC"}}; }, "normalizer");
  refuses([](json& j) { j["pre_tokenizer"] = nullptr; }, "pre_tokenizer");
  refuses([](json& j) { j["pre_tokenizer"]["add_prefix_space"] = true; }, "add_prefix_space");
  refuses([](json& j) { j["added_tokens"][0]["id"] = 5; }, "two ids");
  refuses([](json& j) { j["added_tokens"][0].erase("content"); }, "lacks");
  refuses([](json& j) { j["added_tokens"][0]["lstrip"] = true; }, "lstrip");
  EXPECT_THROW(load_tokenizer(folder / "missing"), FormatError);
  EXPECT_THROW(load_tokenizer(folder.write("deep", std::string(100000, '['))), FormatError);
}

TEST(BpeTokenizer, EqualsHuggingFacesTokenizers) {
  std::ifstream in(ETNA_SOURCE_DIR "/tests/tokenizers/bpe.json");
  ASSERT_TRUE(in) << "make_bpe.py writes it";
  TemporaryFolder folder;
  const nlohmann::json all = nlohmann::json::parse(in);
  ASSERT_EQ(all["cases"].size(), 4u);
  ASSERT_GT(all["cases"][0]["merges"].size(), 700u);
  for (const auto& seen : all["cases"]) {
    const auto text = seen["text"].get<std::string>();
    const BpeTokenizer mine = train(text, seen["vocab_size"], seen["min_frequency"], seen["special_tokens"]);
    EXPECT_EQ(merges_of(mine), seen["merges"].get<Strings>());
    Strings tokens;
    for (std::size_t id = 0; id < mine.size(); ++id) {
      const auto bytes = std::string(mine.token(static_cast<std::int32_t>(id)));
      tokens.push_back(id < mine.special_tokens().size() ? bytes : to_characters(bytes));
    }
    EXPECT_EQ(tokens, seen["tokens"].get<Strings>());
    const auto loaded = load_tokenizer(folder.write("hf.json", seen["tokenizer_json"].get<std::string>()));
    EXPECT_EQ(loaded->hash(), mine.hash());
    for (const auto& probe : seen["encodings"])
      EXPECT_EQ(mine.encode(probe["text"].get<std::string>()), probe["ids"].get<std::vector<std::int32_t>>())
          << probe["text"];
  }
}

}  // namespace
}  // namespace etna::data
