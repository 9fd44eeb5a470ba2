#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include <data/temporary_folder.h>
#include <tokenizers/model_fixtures.h>

#include <etna/data/tokenizers/internal/unicode/charsmap.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/data/tokenizers/pieces/internal/prefix_trie.h>
#include <etna/device/error.h>

namespace {

using namespace etna::data;
using namespace etna::data::fixtures;
using etna::FormatError;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string one_sentence(const FormatError& error) {
  const std::string what = error.what();
  return what.find('\n') == std::string::npos && what.size() < 600 ? "" : what;
}

/// Either throws with one sentence, or returns a working tokenizer.
template <typename Make>
void survives(Make&& make) {
  try {
    const ModelTokenizer tokenizer = make();
    const Ids ids = tokenizer.encode("a<s> \xFF b");
    tokenizer.decode(ids);
    for (std::size_t id = 0; id < std::min<std::size_t>(tokenizer.size(), 300); ++id)
      tokenizer.token(static_cast<std::int32_t>(id));
  } catch (const FormatError& error) {
    EXPECT_EQ(one_sentence(error), "");
  }
}

TEST(HostileVocabulary, IsRefusedInWords) {
  const auto refuses = [](auto&& change, const char* why) {
    VocabularyFields fields = llama_fields({"a", "b"});
    change(fields);
    EXPECT_THAT([&] { ModelTokenizer(fields, "m.gguf"); }, ThrowsMessage<FormatError>(HasSubstr(why))) << why;
  };
  refuses([](auto& f) { f.tokens.clear(); }, "no tokens");
  refuses([](auto& f) { f.model = "rwkv"; }, "'rwkv'");
  refuses([](auto& f) { f.scores.pop_back(); }, "261 tokens have 260 scores");
  refuses([](auto& f) { f.types.pop_back(); }, "261 tokens have 260 types");
  refuses([](auto& f) { f.types[5] = 7; }, "type 7");
  refuses([](auto& f) { f.types[5] = -1; }, "type -1");
  refuses([](auto& f) { f.scores[9] = std::numeric_limits<float>::quiet_NaN(); }, "not finite");
  refuses([](auto& f) { f.scores[9] = std::numeric_limits<float>::infinity(); }, "not finite");
  refuses([](auto& f) { f.tokens[260] = "a"; }, "tokens 259 and 260 are the same");
  refuses([](auto& f) { f.bos = 261; }, "bos is 261");
  refuses([](auto& f) { f.eos = -5; }, "eos is -5");
  refuses([](auto& f) { f.unk = std::int64_t{1} << 40; }, "unknown token is 1099511627776");
  refuses([](auto& f) { f.end_tokens = {1 << 30}; }, "end token is");
  refuses([](auto& f) { f.bos.reset(), f.add_bos = true; }, "lacks a BOS token");
  refuses([](auto& f) { f.tokens[10] = "<0xZZ>"; }, "byte token 10");
  refuses([](auto& f) { f.precompiled_charsmap = "abc"; }, "cut off");
  refuses([](auto& f) { f.precompiled_charsmap = std::string("\xFF\xFF\xFF\x7F", 4) + "abcd"; }, "size of their trie");
}

TEST(HostileVocabulary, BadMergesAreRefused) {
  const auto refuses = [](auto&& change, const char* why) {
    VocabularyFields fields = byte_fields({{"a", "b"}, {"ab", "c"}}, {}, "gpt-2");
    change(fields);
    EXPECT_THAT([&] { ModelTokenizer(fields, "m.gguf"); }, ThrowsMessage<FormatError>(HasSubstr(why))) << why;
  };
  refuses([](auto& f) { f.merges.push_back("x nothing"); }, "merge 2 is not a pair");
  refuses([](auto& f) { f.merges.push_back("x"); }, "merge 2 is not a pair");
  refuses([](auto& f) { f.merges.push_back(""); }, "merge 2 is not a pair");
  refuses([](auto& f) { f.merges.push_back("x y"); }, "result of merge 2 is not in the vocabulary");
  refuses([](auto& f) { f.merges.push_back("x  y"); }, "merge 2 is not a pair");
  // Repeated or reversed merges cannot loop: every merge makes a word shorter.
  VocabularyFields twice = byte_fields({{"a", "b"}}, {}, "gpt-2");
  twice.merges.insert(twice.merges.end(), 1000, twice.merges[0]);
  EXPECT_EQ(ModelTokenizer(twice).encode("ab"), (Ids{256}));
}

TEST(HostileVocabulary, WithoutATokenForACharacterSaysSo) {
  VocabularyFields fields;
  fields.model = "llama";
  fields.tokens = {"a"};
  fields.scores = {0};
  fields.add_space_prefix = false;
  const ModelTokenizer tokenizer(fields);
  EXPECT_EQ(tokenizer.encode("aa"), (Ids{0, 0}));
  EXPECT_THAT([&] { tokenizer.encode("ab"); }, ThrowsMessage<FormatError>(HasSubstr("no token for the character")));
}

TEST(HostileVocabulary, TokensMayBeEmptyOrNoUtf8) {
  VocabularyFields fields = llama_fields({"\xE2\x96\x81", "", "", "\xFF", "\xE2\x96", "a\xFF"});
  const ModelTokenizer tokenizer(fields);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xFF b\xE2\x96")), "a\xFF b\xE2\x96");
  EXPECT_THAT([&] { tokenizer.json(); }, ThrowsMessage<FormatError>(HasSubstr("not UTF-8")));
  EXPECT_THROW(tokenizer.decode(Ids{-1}), FormatError);
  EXPECT_THROW(tokenizer.decode(Ids{265}), FormatError);
}

TEST(HostileVocabulary, ModelsThatAreCutAnywhereAreRefusedOrWork) {
  for (const char* name : {"bpe", "unigram"}) {
    const std::string whole = sentencepiece_model(name);
    ASSERT_GT(whole.size(), 2000u);
    for (std::size_t size = 0; size < whole.size(); ++size)
      survives([&] { return ModelTokenizer(parse_sentencepiece(whole.substr(0, size), "cut.model"), "cut.model"); });
  }
}

TEST(HostileVocabulary, ModelsWithChangedBytesAreRefusedOrWork) {
  const std::string whole = sentencepiece_model("unigram");
  unsigned state = 7;
  for (int i = 0; i < 3000; ++i) {
    std::string changed = whole;
    for (int k = 0; k < 3; ++k) {
      state = state * 1664525u + 1013904223u;
      changed[(state >> 8) % changed.size()] = static_cast<char>(state >> 3);
    }
    survives([&] { return ModelTokenizer(parse_sentencepiece(changed, "changed.model"), "changed.model"); });
  }
}

TEST(HostileVocabulary, LengthsThatOverflowAreRefused) {
  const std::string huge = "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01";
  for (const std::string& start : {std::string("\x0A"), std::string("\x0A\x02\x0A\xFF"), std::string("\x12")})
    EXPECT_THAT([&] { parse_sentencepiece(start + huge, "m"); }, ThrowsMessage<FormatError>(HasSubstr("cut off")));
  EXPECT_THAT([&] { parse_sentencepiece("\x0A" + huge + huge, "m"); },
              ThrowsMessage<FormatError>(HasSubstr("cut off")));
  EXPECT_THAT([] { parse_sentencepiece("\x0B", "m"); }, ThrowsMessage<FormatError>(HasSubstr("unknown wire type")));
  EXPECT_THAT(
      [] {
        parse_sentencepiece(
            "\x0D"
            "abcd",
            "m");
      },
      ThrowsMessage<FormatError>(HasSubstr("wrong wire type")));
  std::string count(4, '\xFF');
  EXPECT_THAT([&] { parse_llama2c_tokenizer(count + count + count, "t.bin"); },
              ThrowsMessage<FormatError>(HasSubstr("cut off")));
}

TEST(HostileVocabulary, TenMillionEntriesClaimedTakeNoMemory) {
  const std::string few =
      R"({"model": {"type": "BPE", "vocab": {"a": 9999999}, "merges": []}, "decoder": {"type": "Fuse"}})";
  EXPECT_THAT([&] { parse_tokenizer(few, "t.json"); },
              ThrowsMessage<FormatError>(HasSubstr("not a valid id among 1 tokens")));
}

TEST(HostileVocabulary, RulesNeverReadOutsideTheirBytes) {
  unsigned state = 3;
  for (int i = 0; i < 5000; ++i) {
    std::string blob("\x40\0\0\0", 4);
    for (int k = 0; k < 72; ++k) {
      state = state * 1664525u + 1013904223u;
      blob += static_cast<char>(state >> (8 + i % 16));
    }
    blob += '\0';
    const Charsmap rules(blob, "rules");
    for (const char* text : {"a", "abc", "\xFF\xFF\xFF\xFF", "\xE2\x96\x81x"}) {
      rules.longest(text);
      rules.shortest(text);
    }
  }
}

TEST(HostileVocabulary, OneVeryLongTokenIsNoTrouble) {
  const std::string length(1 << 20, 'a');
  VocabularyFields fields = llama_fields({"a", length});
  fields.types[260] = static_cast<std::int32_t>(TokenType::user_defined);
  const ModelTokenizer tokenizer(fields);
  EXPECT_EQ(tokenizer.encode(length).size(), 4u) << "the bytes of U+2581, and the token";
}

TEST(PrefixTrie, FindsAllStringsThatBeginAText) {
  const PrefixTrie trie({{"ab", 1}, {"a", 0}, {"abcd", 2}, {"", 9}, {"b", 3}, {"ab", 7}, {"\xFF", 4}});
  Ids found;
  trie.match("abcde", [&](std::size_t length, std::int32_t id) {
    found.push_back(static_cast<std::int32_t>(length));
    found.push_back(id);
  });
  EXPECT_EQ(found, (Ids{1, 0, 2, 1, 4, 2}));
  EXPECT_EQ(trie.longest("abc").id, 1);
  EXPECT_EQ(trie.longest("\xFF").id, 4);
  EXPECT_EQ(trie.longest("c").length, 0u);
  EXPECT_EQ(trie.longest("").length, 0u);
  EXPECT_EQ(PrefixTrie().longest("a").length, 0u);
}

TEST(PrefixTrie, FindsTheSameInNodesOfFewAndManyChildren) {
  std::vector<std::string> all;
  for (const std::size_t children : {std::size_t{3}, std::size_t{6}, std::size_t{7}, std::size_t{256}})
    for (std::size_t i = 0; i < children; ++i)
      all.push_back(std::to_string(children) + ":" + static_cast<char>(255 * i / (children - 1)));
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  for (std::size_t i = 0; i < all.size(); ++i) entries.emplace_back(all[i], static_cast<std::int32_t>(i));
  const PrefixTrie trie(entries);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(trie.longest(all[i] + "x").id, static_cast<std::int32_t>(i)) << i;
  for (const char* text : {"3:x", "6:x", "7:x", "3", "3:", ""}) EXPECT_EQ(trie.longest(text).length, 0u) << text;
}

TEST(HostileTokenizerJson, FilesThatAreCutOrChangedAreRefusedOrWork) {
  const nlohmann::json kinds = read_fixture("tokenizer_json.json");
  for (const auto& seen : kinds) {
    if (seen["whole"] != true) continue;
    const std::string whole = seen["change"].dump();
    for (std::size_t size = 0; size < whole.size(); size += 131)
      EXPECT_THROW(parse_tokenizer(whole.substr(0, size), "cut.json"), FormatError) << size;
    unsigned state = 11;
    for (int i = 0; i < 60; ++i) {
      std::string changed = whole;
      for (int k = 0; k < 2; ++k) {
        state = state * 1664525u + 1013904223u;
        changed[(state >> 8) % changed.size()] = "0a\"{}[]:,-9e\\n"[(state >> 3) % 14];
      }
      try {
        const auto tokenizer = parse_tokenizer(changed, "changed.json");
        tokenizer->decode(tokenizer->encode("a time <s>\xFF", SpecialTokens::as_text));
      } catch (const FormatError& error) {
        EXPECT_EQ(one_sentence(error), "");
      }
    }
  }
}

}  // namespace
