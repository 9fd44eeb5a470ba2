#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include <tokenizers/model_fixtures.h>

#include <etna/data/tokenizers/bpe_tokenizer.h>
#include <etna/data/tokenizers/internal/splits/pre_tokenizer.h>
#include <etna/data/tokenizers/internal/words/word_cache.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>
#include <etna/data/tokenizers/pieces/internal/tokenizer_plan.h>
#include <etna/device/error.h>

namespace {

using namespace etna::data;
using namespace etna::data::fixtures;
using etna::FormatError;

/// Text that tokenizers split, merge or replace in different ways.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> parts = {" ",        " ",
                                                 " ",        "  ",
                                                 "     ",    "\n",
                                                 "\r\n",     "\t",
                                                 "\u2581",   "\u2581\u2581",
                                                 "\u00A0",   "the",
                                                 "re",       "time",
                                                 "Once",     "a",
                                                 "b",        "c",
                                                 "e",        "n",
                                                 "o",        "ab",
                                                 "1",        "234",
                                                 "'s",       "'",
                                                 ".",        ",",
                                                 "--",       "\u00E9",
                                                 "e\u0301",  "\u65E5\u672C",
                                                 "\u0441",   "\u0430",
                                                 "<s>",      "</s>",
                                                 "<0x0A>",   "\U0001F600",
                                                 "\xFF",     "\xE2",
                                                 "\xE2\x96", "\x81",
                                                 "\xC3",     "\u180E"};
  std::string text;
  const std::size_t count = random() % 60;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& part = parts[random() % parts.size()];
    const std::size_t repeats = random() % 40 == 0 ? 70 : 1;  // longer than any word that is cached
    for (std::size_t k = 0; k < repeats; ++k) text += part;
  }
  return text;
}

/// The ids, each piece encoded whole; nothing for a text that cannot be encoded.
std::optional<Ids> encode_whole(const TokenizerPlan& plan, std::string_view text, bool special) {
  Ids ids;
  const auto normalized = [&](std::string_view part, bool start) {
    std::vector<std::string> pieces;
    if (plan.split)
      plan.split(part, start, pieces);
    else
      pieces.emplace_back(part);
    for (const std::string& piece : pieces) {
      if (piece.empty()) continue;
      Ids more;
      plan.model->encode(piece, more);
      const auto both = [&](std::int32_t a, std::int32_t b) { return a == b && a == plan.fuse_unknown; };
      if (plan.fuse_unknown >= 0) more.erase(std::unique(more.begin(), more.end(), both), more.end());
      ids.insert(ids.end(), more.begin(), more.end());
    }
  };
  const auto token = [&](std::int32_t id) { ids.push_back(id); };
  const auto raw = [&](std::string_view part) {
    const bool start = part.data() == text.data();
    const std::string normal = plan.normalize ? plan.normalize(part) : std::string(part);
    plan.normalized.split(
        normal, special, [&](std::string_view inner) { normalized(inner, start && inner.data() == normal.data()); },
        token);
  };
  try {
    plan.raw.split(text, special, raw, token);
    return ids;
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

std::optional<Ids> encode_cached(const Tokenizer& tokenizer, std::string_view text, bool special) {
  try {
    return tokenizer.encode(text, special ? SpecialTokens::recognize : SpecialTokens::as_text);
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

/// Encodes the same texts in several threads, twice each.
void expect_whole(TokenizerPlan plan, const TokenizerPlan& reference, const std::string& name) {
  std::mt19937 random(7);
  std::vector<std::string> texts{"", " ", "\u2581", "\n\u2581", std::string(300, 'a'), std::string(1, '\0')};
  for (int i = 0; i < 150; ++i) texts.push_back(random_text(random));
  std::vector<std::optional<Ids>> wanted;
  for (std::size_t i = 0; i < texts.size(); ++i) wanted.push_back(encode_whole(reference, texts[i], i % 2 == 0));
  const ModelTokenizer tokenizer(std::move(plan));
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 2 * texts.size(); ++i) {
        const std::size_t k = (i + t * 31) % texts.size();
        wrong[t] += encode_cached(tokenizer, texts[k], k % 2 == 0) != wanted[k];
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0) << name;
}

void expect_whole(const VocabularyFields& fields, const std::string& name) {
  expect_whole(plan_vocabulary(fields, name), plan_vocabulary(fields, name), name);
}

TEST(WordCache, SentencePieceModelsEncodeAsWithoutIt) {
  for (const auto& model : read_fixture("sentencepiece.json"))
    expect_whole(parse_sentencepiece(from_base64(model["model"]), "m"), model["name"]);
}

TEST(WordCache, ScoresMergeAcrossASpaceOnlyWhereATokenDoes) {
  const std::string space(kSpaceSymbol);
  VocabularyFields fields = llama_fields({space, "a", "b", "e", "\n", "ab", space + "a", space + space, "\n" + space,
                                          "e" + space + "a", "\n" + space + space, "re", "the", "\xD1\x81" + space});
  expect_whole(fields, "tokens with a space inside");
  for (const std::size_t id : {std::size_t{264}, std::size_t{267}, std::size_t{268}}) {
    fields.types[id] = static_cast<std::int32_t>(TokenType::unused);
    expect_whole(fields, "unused");
  }
  fields.types[268] = static_cast<std::int32_t>(TokenType::user_defined);
  expect_whole(fields, "user-defined");
}

TEST(WordCache, UnusedTokensAreSplitAsInTheWholePiece) {
  VocabularyFields fields = llama_fields({"\u2581", "a", "b", "c", "ab", "bc", "abc",
                                          "\u2581"
                                          "a",
                                          "\u2581"
                                          "b",
                                          "x", "xb", "cx"});
  fields.types[265] = static_cast<std::int32_t>(TokenType::unused);
  const TokenizerPlan reference = plan_vocabulary(fields, "unused");
  const ModelTokenizer tokenizer(fields);
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int k = 0; k < 12; ++k) text += "abc x"[random() % 5];
    ASSERT_EQ(tokenizer.encode(text), encode_whole(reference, text, true)) << text;
  }
}

TEST(WordCache, ByteLevelVocabulariesEncodeAsWithoutIt) {
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "gpt-4o", "falcon"}) {
    const std::vector<std::pair<std::string, std::string>> merges{
        {"t", "h"}, {"th", "e"}, {" ", "the"}, {"a", "a"}, {"aa", "aa"}, {"r", "e"}, {"\xE2", "\x96"}, {"\n", "\n"}};
    expect_whole(byte_fields(merges, {"<s>", "</s>"}, pre), pre);
  }
}

TEST(WordCache, TokenizerJsonsEncodeAsWithoutIt) {
  const auto plain = nlohmann::json::parse(read_fixture("bpe.json")["cases"][0]["tokenizer_json"].get<std::string>());
  std::size_t compared = 0;
  for (const auto& seen : read_fixture("tokenizer_json.json")) {
    nlohmann::json file = plain;
    if (seen["whole"] == true) file = nlohmann::json::object();
    for (const auto& item : seen["change"].items()) file[item.key()] = item.value();
    try {
      const std::string text = file.dump();
      expect_whole(plan_tokenizer_json(text, "t"), plan_tokenizer_json(text, "t"), seen["name"]);
      ++compared;
    } catch (const FormatError&) {  // needs a library that this build lacks
    }
  }
  EXPECT_GE(compared, 11u);
}

TEST(WordCache, MergesOfFallbackTokensReachAcrossASpace) {
  // A fallback token merges by its own spelling, so "b" (unknown, U+2581) and the U+2581 after it become one.
  for (const bool ignore_merges : {false, true})
    for (const char* unknown : {"\u2581", "?", "a"}) {
      auto file = nlohmann::json::parse(R"({"model": {"type": "BPE",
          "vocab": {"\u2581": 0, "\u2581\u2581": 1, "?": 2, "a": 3, "\u2581a": 4, "aa": 5},
          "merges": ["\u2581 \u2581", "a a"]}, "decoder": {"type": "Fuse"}})");
      if (unknown == std::string_view("?")) {
        file["model"]["vocab"]["?\u2581"] = 6;
        file["model"]["merges"].push_back("? \u2581");
      }
      file["model"]["unk_token"] = unknown;
      file["model"]["ignore_merges"] = ignore_merges;
      expect_whole(plan_tokenizer_json(file.dump(), "t"), plan_tokenizer_json(file.dump(), "t"), unknown);
    }
}

TEST(WordCache, BpeEncodesAsWithoutIt) {
  std::mt19937 random(3);
  std::string corpus;
  for (int i = 0; i < 400; ++i) corpus += random_text(random);
  const std::vector<std::string_view> texts{corpus};
  const BpeTokenizer bpe = BpeTokenizer::train(texts, {.vocab_size = 600});
  std::map<std::pair<std::string, std::string>, std::size_t> ranks;
  std::map<std::string, std::int32_t, std::less<>> ids;
  for (std::size_t i = 0; i < bpe.merges().size(); ++i)
    ranks.emplace(
        std::pair(std::string(bpe.token(bpe.merges()[i].first)), std::string(bpe.token(bpe.merges()[i].second))), i);
  for (std::size_t id = 0; id < bpe.size(); ++id)
    ids.emplace(bpe.token(static_cast<std::int32_t>(id)), static_cast<std::int32_t>(id));
  ASSERT_GT(ranks.size(), 200u);
  for (int i = 0; i < 300; ++i) {
    const std::string text = random_text(random);
    Ids wanted;
    for_each_word(text, [&](std::string_view word) {
      std::vector<std::string> symbols;
      for (const char c : word) symbols.emplace_back(1, c);
      for (;;) {
        std::size_t best = ranks.size(), where = 0;
        for (std::size_t k = 0; k + 1 < symbols.size(); ++k) {
          const auto found = ranks.find({symbols[k], symbols[k + 1]});
          if (found == ranks.end() || found->second >= best) continue;
          best = found->second;
          where = k;
        }
        if (best == ranks.size()) break;
        symbols[where] += symbols[where + 1];
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(where) + 1);
      }
      for (const std::string& symbol : symbols) wanted.push_back(ids.at(symbol));
    });
    ASSERT_EQ(bpe.encode(text), wanted);
    ASSERT_EQ(bpe.encode(text), wanted) << "again";
  }
}

TEST(WordCache, StaysBoundedAndFindsWhatWasUsedLast) {
  WordCache cache;
  EXPECT_EQ(cache.bytes(), 0u);
  WordCache::Reader reader(cache);
  Ids ids;
  std::size_t encoded = 0;
  const auto encode = [&](std::string_view word, Ids& to) {
    ++encoded;
    for (const char c : word) to.push_back(c);
  };
  const std::size_t most = 2 * WordCache::kMostSlots * 20;
  for (int i = 0; i < 600'000; ++i) {
    const std::string word = "word " + std::to_string(i);
    ids.clear();
    reader.append(word, ids, encode);
    ASSERT_TRUE(std::equal(ids.begin(), ids.end(), word.begin(), word.end()));
    if (i % 1000 == 0) {
      ASSERT_LE(cache.bytes(), most);
    }
  }
  const std::size_t before = encoded;
  ids.clear();
  reader.append("word 599999", ids, encode);
  EXPECT_EQ(encoded, before);
  const std::string longest(WordCache::kLongestWord, 'a'), longer = longest + "a";
  for (const std::string& word : {longest, longest, longer, longer}) reader.append(word, ids, encode);
  EXPECT_EQ(encoded, before + 3) << "longer words are not kept";
}

TEST(WordCache, ThreadsAddAndFindTheSameWords) {
  WordCache cache;
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int text = 0; text < 20; ++text) {
        WordCache::Reader reader(cache);
        for (int i = 0; i < 2000; ++i) {
          const std::string word = std::to_string(random() % 20'000);
          Ids ids;
          reader.append(word, ids, [](std::string_view of, Ids& to) { to.assign(of.begin(), of.end()); });
          wrong[t] += !std::equal(ids.begin(), ids.end(), word.begin(), word.end());
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0);
}

}  // namespace
