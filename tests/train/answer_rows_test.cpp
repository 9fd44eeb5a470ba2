#include <etna/train/internal/answer_rows.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/train/internal/answer_batches.h>

#include "data/temporary_folder.h"
#include "models/some_tokenizer.h"

namespace etna::training {
namespace {

using testing::HasSubstr;

/// Bytes and a few words, with ChatML's marks.
data::ModelTokenizer chatml_tokenizer() {
  data::VocabularyFields fields = some_fields();
  for (const char* mark : {"<|im_start|>", "<|im_end|>"}) {
    fields.tokens.emplace_back(mark);
    fields.types.push_back(3);
    fields.scores.push_back(0);
  }
  fields.chat_template = "{{'<|im_start|>' + message['role']}} <|im_end|>";
  fields.eos = static_cast<std::int32_t>(fields.tokens.size()) - 1;
  return data::ModelTokenizer(fields);
}

class AnswerRowsOfChats : public testing::Test {
 protected:
  AnswerRows read(const std::string& text, const RowOptions& options = {}) {
    losses_ = {};
    return read_answer_rows(folder_.write("rows.jsonl", text), &tokenizer_, options, losses_);
  }
  /// Learned tokens as they are spelled, those before in brackets.
  std::string marked(const AnswerText& text) const {
    std::string out;
    for (std::size_t i = 0; i < text.ids.size(); ++i) {
      const bool learned = text.learned[i] != 0, before = i > 0 && text.learned[i - 1] != 0;
      if (learned != before) out += learned ? "[" : "]";
      const std::string_view spelled = tokenizer_.spelling(text.ids[i]);
      const bool is_byte = spelled.starts_with("<0x");
      out += is_byte ? std::string(tokenizer_.token(text.ids[i])) : std::string(spelled);
    }
    return out + (text.learned.back() != 0 ? "]" : "");
  }

  TemporaryFolder folder_;
  data::ModelTokenizer tokenizer_ = chatml_tokenizer();
  RowLosses losses_;
};

TEST_F(AnswerRowsOfChats, LearnAnswersWithTheTokenThatEndsThem) {
  const AnswerRows rows =
      read(R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "yy"},)"
           R"( {"role": "user", "content": "z"}, {"role": "assistant", "content": "w"}]})");
  ASSERT_EQ(rows.texts.size(), 1U);
  const std::string text = marked(rows.texts[0]);
  EXPECT_THAT(text, HasSubstr("[yy<|im_end|>]"));
  EXPECT_THAT(text, HasSubstr("[w<|im_end|>]"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '['), 2);
  EXPECT_EQ(rows.texts[0].answers(), 5);
  EXPECT_EQ(std::count(rows.prompts[0].begin(), rows.prompts[0].end(), *tokenizer_.find("<|im_start|>")), 2);
}

/// Marks that a message spells are text, and end nothing.
TEST_F(AnswerRowsOfChats, CannotInjectMarks) {
  const AnswerRows rows = read(R"({"prompt": "<|im_end|>", "completion": "<|im_end|>q"})");
  const auto ends = std::count(rows.texts[0].ids.begin(), rows.texts[0].ids.end(), *tokenizer_.eos());
  EXPECT_EQ(ends, 2);
  EXPECT_THAT(marked(rows.texts[0]), HasSubstr("q<|im_end|>]"));
}

TEST_F(AnswerRowsOfChats, HaveToolsAndTheirCalls) {
  const AnswerRows rows =
      read(R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "tool_calls":)"
           R"( [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"k": 7}}}]}, {"role": "tool",)"
           R"( "tool_call_id": "1", "name": "f", "content": "r"}, {"role": "assistant", "content": "done"}],)"
           R"( "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]})");
  const std::string text = marked(rows.texts[0]);
  EXPECT_THAT(text, HasSubstr("<tools>"));
  EXPECT_THAT(text, HasSubstr("</tool_call><|im_end|>]"));
  EXPECT_THAT(text, HasSubstr("[done<|im_end|>]"));
}

TEST_F(AnswerRowsOfChats, ContinuePromptsWithoutAFormat) {
  const AnswerRows rows = read(R"({"prompt": "the river", "completion": " a"})", {.chat_format = "none"});
  EXPECT_EQ(marked(rows.texts[0]).find("im_start"), std::string::npos);
  EXPECT_EQ(rows.texts[0].ids.back(), *tokenizer_.eos());
}

TEST_F(AnswerRowsOfChats, SayWhatIsCutAndLeftOut) {
  std::string text = R"({"prompt": "x", "completion": "y"})"
                     "\n";
  text += R"({"prompt": "a very long question that leaves no room", "completion": "y"})";
  const AnswerRows rows = read(text, {.most = 40});
  EXPECT_EQ(rows.texts.size(), 1U);
  EXPECT_EQ(losses_.cut, 1U);
  EXPECT_EQ(losses_.silent, 1U);
  EXPECT_THAT(losses_.str(40), testing::AllOf(HasSubstr("1 text is longer than 40 tokens"), HasSubstr("in line 2")));
  const AnswerRows parts = read(R"({"text": "the river a b c . the river a b c ."})", {.most = 6});
  std::int64_t learned = 0;
  for (const AnswerText& part : parts.texts) {
    EXPECT_LE(part.ids.size(), 6U);
    learned += part.answers();
  }
  EXPECT_EQ(learned, read(R"({"text": "the river a b c . the river a b c ."})").texts[0].answers());
}

TEST_F(AnswerRowsOfChats, TakeTokensAsTheyAre) {
  const AnswerRows rows = read(R"({"tokens": [1, 5, 6, 7], "learned": [0, 0, 1, 1]})");
  EXPECT_EQ(rows.texts[0].ids, (std::vector<std::int32_t>{1, 5, 6, 7}));
  EXPECT_EQ(rows.texts[0].answers(), 2);
  for (const char* bad : {R"({"tokens": [1, 999999]})", R"({"tokens": [-1]})", R"({"tokens": [1.5]})",
                          R"({"tokens": "a"})", R"({"tokens": [1, 2], "learned": [1]})"})
    EXPECT_THROW(read(bad), FormatError) << bad;
}

TEST_F(AnswerRowsOfChats, AreTheTextsOfAFolder) {
  const TemporaryFolder texts;
  texts.write("b.txt", "the river");
  texts.write("a.md", "a b");
  texts.write("c.bin", "c");
  RowLosses losses;
  EXPECT_EQ(read_answer_rows(texts.path(), &tokenizer_, {}, losses).texts.size(), 2U);
  const TemporaryFolder none;
  EXPECT_THROW(read_answer_rows(none.path(), &tokenizer_, {}, losses), FormatError);
}

/// Every learned token is in the batches of an epoch once, whatever their shapes.
TEST_F(AnswerRowsOfChats, AreInEachEpochOnce) {
  std::string text;
  for (int i = 0; i < 13; ++i)
    text +=
        R"({"prompt": ")" + std::string(static_cast<std::size_t>(i * 5 % 17), 'x') + R"(", "completion": "y"})" + "\n";
  const AnswerRows rows = read(text);
  std::int64_t wanted = 0;
  for (const AnswerText& row : rows.texts) wanted += row.answers();
  for (const bool packed : {true, false}) {
    for (const std::int64_t batch : {1, 3, 100}) {
      const AnswerBatches batches(rows, {.batch = batch, .accumulation = 2, .seq = 128, .packed = packed});
      EXPECT_EQ(batches.answers(), wanted);
      std::int64_t seen = 0;
      for (std::int64_t step = 0; step < batches.steps_per_epoch(); ++step)
        for (const auto y : batches.of_step(step).y.to_vector<std::int32_t>()) seen += y == kNotLearned ? 0 : 1;
      EXPECT_EQ(seen, wanted) << packed << batch;
    }
  }
}

}  // namespace
}  // namespace etna::training
