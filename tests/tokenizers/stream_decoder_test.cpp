#include <gtest/gtest.h>

#include <tokenizers/model_fixtures.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/bpe_tokenizer.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/data/tokenizers/stream_decoder.h>
#include <etna/data/tokenizers/word_tokenizer.h>
#include <etna/device/error.h>

namespace {

using namespace etna::data;
using namespace etna::data::fixtures;

std::string streamed(const Tokenizer& tokenizer, const Ids& ids) {
  StreamDecoder stream(tokenizer);
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string more = stream.push(id);
    EXPECT_EQ(find_invalid_utf8(more), std::string::npos);
    text += more;
  }
  return text + stream.finish();
}

TEST(StreamDecoder, NeverGivesHalfACharacter) {
  const ModelTokenizer tokenizer(byte_fields({}, {}, "gpt-2"));
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, GivesWhatDecodeGives) {
  const std::string text = " caf\u00E9 \u65E5\u672C\u8A9E \U0001F600\U0001F468\u200D\U0001F469 end ";
  for (const auto& seen : read_fixture("sentencepiece.json")) {
    const ModelTokenizer tokenizer(parse_sentencepiece(from_base64(seen["model"]), "m"));
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(streamed(tokenizer, ids), tokenizer.decode(ids)) << seen["name"];
  }
  const std::string_view texts[] = {text};
  const BpeTokenizer trained = BpeTokenizer::train(texts, {.vocab_size = 260, .special_tokens = {}});
  EXPECT_EQ(streamed(trained, trained.encode(text)), text);
}

TEST(StreamDecoder, WhatIsBrokenBecomesTheReplacementCharacter) {
  const ModelTokenizer tokenizer(byte_fields({}, {}, "gpt-2"));
  const std::string mark = "\uFFFD";
  EXPECT_EQ(streamed(tokenizer, {0xC3}), mark) << "one for a beginning without its end";
  EXPECT_EQ(streamed(tokenizer, {0xF0, 0x9F, 0x98}), mark);
  EXPECT_EQ(streamed(tokenizer, {0xF0, 0x9F, 'a'}), mark + "a");
  EXPECT_EQ(streamed(tokenizer, {0xC3, 0xC3, 0xA9}), mark + "\u00E9");
  EXPECT_EQ(streamed(tokenizer, {0x80, 0xFF}), mark + mark);
  EXPECT_EQ(streamed(tokenizer, {0xED, 0xA0, 0x80}), mark + mark + mark) << "surrogates are no characters";
  EXPECT_EQ(streamed(tokenizer, {0xE0, 0x80}), mark + mark) << "nor are overlong forms";
}

TEST(StreamDecoder, EqualsReplacementOfTheWholeForAllPairsOfBytes) {
  const ModelTokenizer tokenizer(byte_fields({}, {}, "gpt-2"));
  for (int a = 0x7F; a < 256; ++a)
    for (int b = 0x7F; b < 256; ++b) {
      const Ids ids{a, b, 0x9F, 0x98, 'x'};
      ASSERT_EQ(streamed(tokenizer, ids), replace_invalid_utf8(tokenizer.decode(ids))) << a << " " << b;
    }
}

TEST(StreamDecoder, TheSpaceBeforeTheFirstWordIsLeftOutOnce) {
  const ModelTokenizer tokenizer(llama_fields({"\xE2\x96\x81", "\xE2\x96\x81hi"}));
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(1), "") << "bos is no text";
  EXPECT_EQ(stream.push(260), "hi");
  EXPECT_EQ(stream.push(260), " hi");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push(260), "hi") << "a new text";
  StreamDecoder shown(tokenizer, true);
  EXPECT_EQ(shown.push(1) + shown.push(260) + shown.push(2), "<s>hi</s>");
  EXPECT_THROW(stream.push(-1), etna::FormatError);
  EXPECT_EQ(stream.push(1000), "");  // a row of a padded table
}

/// What a stream gives for `rest` behind `skipped`.
std::string text_behind(const Tokenizer& tokenizer, const Ids& skipped, const Ids& rest, bool by_skip) {
  StreamDecoder stream(tokenizer);
  if (by_skip) stream.skip(skipped);
  if (!by_skip)
    for (const std::int32_t id : skipped) stream.push(id);
  std::string text;
  for (const std::int32_t id : rest) text += stream.push(id);
  return text + stream.finish();
}

TEST(StreamDecoder, SkippingLeavesItWherePushingDoes) {
  const std::string text = "  a \" b \u00E9\u65E5\u672C\U0001F600\U0001F468\u200D \"x\" end \xF0\x9F\x98 \xE6\x97";
  const auto check = [&](const Tokenizer& tokenizer, Ids ids, const std::string& what) {
    ids.push_back(1000);  // a row of a padded table
    for (std::size_t at = 0; at <= ids.size(); ++at) {
      const Ids before(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(at)),
          behind(ids.begin() + static_cast<std::ptrdiff_t>(at), ids.end());
      EXPECT_EQ(text_behind(tokenizer, before, behind, true), text_behind(tokenizer, before, behind, false))
          << what << " at " << at;
    }
  };
  for (const auto& seen : read_fixture("sentencepiece.json")) {
    const ModelTokenizer tokenizer(parse_sentencepiece(from_base64(seen["model"]), "m"));
    Ids ids = tokenizer.encode(replace_invalid_utf8(text));
    ids.insert(ids.begin(), 1);  // BOS
    check(tokenizer, ids, std::string(seen["name"]));
  }
  Ids bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  check(ModelTokenizer(byte_fields({}, {}, "gpt-2")), bytes, "bytes");
  const std::string_view trained[] = {text};
  const BpeTokenizer bpe = BpeTokenizer::train(trained, {.vocab_size = 280});
  check(bpe, bpe.encode(text), "bpe");
  Vocabulary words;
  for (const char* word : {"say", "\"", "hello", ".", "<unk>", "more"}) words.add(word);
  const WordTokenizer word(words);
  check(word, word.encode("say \" hello more \" say \" more \" ."), "words");
}

}  // namespace
