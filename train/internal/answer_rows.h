#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/file_path.h>

/// Rows of texts and answers, one JSON object a line, as tokens to be trained on. Internal.
namespace etna::training {

/// A text, and which of its tokens are answers.
struct AnswerText {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> learned;  ///< of each token: 1 where a model should foretell it
  std::size_t line = 0;               ///< of the file, or number of the folder's file, from 1 on

  /// Learned tokens but the first, which nothing foretells.
  std::int64_t answers() const;
};

/// What all rows of a file are.
enum class RowKind : std::uint8_t { messages, completion, text, tokens, preference };
const char* name(RowKind kind);

/// The rows of a file. Of preferences, texts are pairs: the chosen one, then the rejected one.
struct AnswerRows {
  RowKind kind = RowKind::text;
  std::vector<AnswerText> texts;
  /// The prompt of each row: what stands before its first answer; of plain texts their first 16 tokens.
  std::vector<std::vector<std::int32_t>> prompts;
};

/// How rows are read.
struct RowOptions {
  /// A name of data::chat_formats(); empty: the model's own template; "none": prompts are continued as they are.
  std::string chat_format = {};
  std::int64_t most = 0;  ///< tokens of a text; 0: any. Plain texts are cut into several, of others the end is left out
  std::int64_t vocabulary = 0;  ///< tokens of a model without a tokenizer
};

/// How many rows of a file suffered, with the first line of each kind; 0: none.
struct RowLosses {
  std::size_t cut = 0, first_cut = 0;        ///< longer than RowOptions::most
  std::size_t silent = 0, first_silent = 0;  ///< without an answer, so they are left out

  /// A sentence for each kind; empty where there are none.
  std::string str(std::int64_t most) const;
};

/// Reads a file of rows that are all of one kind, or a folder whose .txt and .md files are texts:
/// - {"messages": [{"role", "content", "tool_calls"}], "tools": [...]}: the assistant's messages are learned;
/// - {"prompt", "completion"}, both text, or both lists of messages: the completion is learned;
/// - {"text"}: all of it is learned;
/// - {"tokens": [ids], "learned": [0 or 1 for each]}: as they are; without "learned" all of them are learned;
/// - {"prompt", "chosen", "rejected"}: two completions, of which the first is the better one.
/// Prompts and completions that are text are a message each where the tokenizer has a chat template.
/// @param tokenizer null: the model has none, so rows are of tokens
/// @throws FormatError naming the file, and the line where there is one: for rows of other or of different kinds, for
/// fields of other types, for messages that the chat format refuses, and where no row has an answer
AnswerRows read_answer_rows(const FilePath& file, const data::Tokenizer* tokenizer, const RowOptions& options,
                            RowLosses& losses);

/// A conversation up to an answer, as read_answer_rows() gives it to a model.
/// @throws FormatError for a tokenizer without a chat template
std::vector<data::TextPart> chat_parts(const data::Tokenizer& tokenizer, const std::string& chat_format,
                                       const std::vector<data::ChatMessage>& messages,
                                       const data::ChatOptions& options);

}  // namespace etna::training
