#include <etna/train/internal/answer_rows.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/internal/chat/jinja_template.h>
#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/device/error.h>
#include <etna/train/internal/chat_fields.h>
#include <etna/train/progress.h>

namespace etna::training {
namespace {

using data::ChatMessage;
using data::TextPart;
using nlohmann::json;

constexpr const char* kNoFormat = "none";
constexpr std::size_t kPromptOfText = 16;  ///< tokens

/// Messages, and which of them are learned: those of the assistant from `first` on.
struct Conversation {
  std::vector<ChatMessage> messages;
  std::vector<data::ChatTool> tools = {};
  std::size_t first = 0;
};

/// The parts whose text are the first bytes.
std::vector<TextPart> first_bytes(const std::vector<TextPart>& parts, std::size_t bytes) {
  std::vector<TextPart> first;
  for (const TextPart& part : parts) {
    if (bytes == 0) break;
    first.push_back({part.text.substr(0, bytes), part.special});
    bytes -= first.back().text.size();
  }
  return first;
}

std::size_t common_tokens(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

std::vector<std::int32_t> integers_in(const json& list, const char* field, std::int64_t most) {
  std::vector<std::int32_t> numbers;
  const auto refuse = [&](const json& value) {
    throw FormatError(
        fmt::format("'{}' has {}; wanted a list of integers from 0 to {}", field, data::json_brief(value), most));
  };
  if (!list.is_array() || list.empty()) refuse(list);
  for (const json& value : list) {
    if (!value.is_number_integer() || value < 0 || value > most) refuse(value);
    numbers.push_back(value.get<std::int32_t>());
  }
  return numbers;
}

/// Turns rows into tokens.
class RowEncoder {
 public:
  RowEncoder(const data::Tokenizer* tokenizer, const RowOptions& options)
      : tokenizer_(tokenizer), vocabulary_(options.vocabulary), format_(options.chat_format) {
    if (tokenizer == nullptr) return;
    ends_ = tokenizer->end_tokens();
    vocabulary_ = static_cast<std::int64_t>(tokenizer->size());
  }

  bool reads_text() const { return tokenizer_ != nullptr; }
  bool has_format() const { return format_ != kNoFormat && (!format_.empty() || !tokenizer_->chat_template().empty()); }

  /// @param row {"tokens", "learned"}
  AnswerText given(const json& row) const {
    AnswerText text{integers_in(row.at("tokens"), "tokens", vocabulary_ - 1), {}};
    text.learned.assign(text.ids.size(), 1);
    const json* learned = data::json_field(row, "learned");
    if (learned == nullptr) return text;
    const std::vector<std::int32_t> marks = integers_in(*learned, "learned", 1);
    if (marks.size() != text.ids.size())
      throw FormatError(fmt::format("'tokens' has {} numbers, 'learned' has {}", text.ids.size(), marks.size()));
    std::transform(marks.begin(), marks.end(), text.learned.begin(),
                   [](std::int32_t mark) { return static_cast<std::uint8_t>(mark); });
    return text;
  }

  AnswerText plain(const std::string& text) const {
    AnswerText row{tokenizer_->encode_prompt(text), {}};
    end_text(row.ids);
    row.learned.assign(row.ids.size(), 1);
    return row;
  }

  /// A text that continues another.
  AnswerText continued(const std::string& prompt, const std::string& completion) const {
    const TextPart first{prompt, data::SpecialTokens::as_text};
    AnswerText row{tokenizer_->encode_parts(std::vector<TextPart>{first, {completion}}), {}};
    const std::size_t begin = common_tokens(tokenizer_->encode_parts(std::vector<TextPart>{first}), row.ids);
    end_text(row.ids);
    row.learned.assign(row.ids.size(), 1);
    std::fill_n(row.learned.begin(), begin, std::uint8_t{0});
    return row;
  }

  /// Templates may write earlier answers in another way than the last one, without its reasoning: then each answer is a
  /// text of its own.
  std::vector<AnswerText> chats(const Conversation& chat, const std::string& place) const {
    if (std::optional<AnswerText> whole = answers_of(chat, chat.messages.size(), chat.first)) return {*whole};
    std::vector<AnswerText> all;
    for (std::size_t i = chat.first; i < chat.messages.size(); ++i) {
      if (chat.messages[i].role != "assistant") continue;
      std::optional<AnswerText> own = answers_of(chat, i + 1, i);
      if (!own) {
        throw FormatError(
            fmt::format("{}: the chat template does not begin an answer as it ends the prompt, so the answer cannot be "
                        "found in the text; name a format by --chat-format",
                        place));
      }
      all.push_back(*own);
    }
    return all;
  }

 private:
  bool is_end(std::int32_t id) const { return std::find(ends_.begin(), ends_.end(), id) != ends_.end(); }
  /// So that a model learns where answers end.
  void end_text(std::vector<std::int32_t>& ids) const {
    if (!ends_.empty() && (ids.empty() || !is_end(ids.back()))) ids.push_back(tokenizer_->eos().value_or(ends_[0]));
  }

  std::vector<TextPart> parts_of(const Conversation& chat, std::size_t count, bool prompt) const {
    const std::vector<ChatMessage> messages(chat.messages.begin(),
                                            chat.messages.begin() + static_cast<std::ptrdiff_t>(count));
    data::ChatOptions options;
    options.add_generation_prompt = prompt;
    options.tools = chat.tools;
    return chat_parts(*tokenizer_, format_, messages, options);
  }

  /// The first `count` messages, in which answers from `first` on are learned; nothing where one is not found.
  std::optional<AnswerText> answers_of(const Conversation& chat, std::size_t count, std::size_t first) const {
    const std::vector<TextPart> parts = parts_of(chat, count, false);
    const std::string text = data::chat_text(parts);
    AnswerText row{tokenizer_->encode_parts(parts), {}};
    row.learned.assign(row.ids.size(), 0);
    const auto tokens_before = [&](std::size_t bytes) {
      return bytes == text.size() ? row.ids.size()
                                  : common_tokens(tokenizer_->encode_parts(first_bytes(parts, bytes)), row.ids);
    };
    for (std::size_t i = first; i < count; ++i) {
      if (chat.messages[i].role != "assistant") continue;
      const std::string before = data::chat_text(parts_of(chat, i, true)),
                        after = data::chat_text(parts_of(chat, i + 1, false));
      if (!text.starts_with(after) || !after.starts_with(before)) return std::nullopt;
      mark(row, tokens_before(before.size()), tokens_before(after.size()));
    }
    return row;
  }

  /// Learns tokens up to the last one that ends an answer; without one, the text is ended where the answer is its end.
  void mark(AnswerText& row, std::size_t begin, std::size_t end) const {
    std::size_t last = end;
    while (last > begin && !is_end(row.ids[last - 1])) --last;
    if (last == begin) {
      if (end == row.ids.size()) {
        end_text(row.ids);
        end = row.ids.size();
        row.learned.resize(end, 0);
      }
      last = end;
    }
    std::fill(row.learned.begin() + static_cast<std::ptrdiff_t>(begin),
              row.learned.begin() + static_cast<std::ptrdiff_t>(last), std::uint8_t{1});
  }

  const data::Tokenizer* tokenizer_;
  std::int64_t vocabulary_;
  const std::string format_;
  std::vector<std::int32_t> ends_;
};

std::optional<RowKind> kind_of(const json& row) {
  const auto has = [&](const char* field) { return data::json_field(row, field) != nullptr; };
  if (has("chosen") || has("rejected")) return RowKind::preference;
  if (has("messages")) return RowKind::messages;
  if (has("completion") || has("prompt")) return RowKind::completion;
  if (has("tokens")) return RowKind::tokens;
  return has("text") ? std::optional(RowKind::text) : std::nullopt;
}

/// A file's rows, one after the other.
class RowReader {
 public:
  RowReader(const data::Tokenizer* tokenizer, const RowOptions& options, RowLosses& losses)
      : encoder_(tokenizer, options), options_(options), losses_(losses) {}

  void read(const json& row, const std::string& place, std::size_t line) {
    const std::optional<RowKind> kind = kind_of(row);
    if (!kind) {
      throw FormatError(fmt::format(
          "{}: there is none of 'messages', 'prompt' with 'completion', 'prompt' with 'chosen' and 'rejected', "
          "'text' or 'tokens'",
          place));
    }
    if (*kind != RowKind::tokens && !encoder_.reads_text()) {
      throw FormatError(fmt::format(
          "{}: the row has {}, and the model came without a tokenizer, so that no text can be read; give rows of "
          "'tokens'",
          place, name(*kind)));
    }
    if (!rows_.prompts.empty() || losses_.silent > 0) {
      if (rows_.kind != *kind)
        throw FormatError(fmt::format("{}: the row has {}, those before have {}; a file has rows of one kind", place,
                                      name(*kind), name(rows_.kind)));
    }
    rows_.kind = *kind;
    place_ = place;
    line_ = line;
    try {
      add(row);
    } catch (const FormatError& error) {
      if (std::string_view(error.what()).starts_with(place)) throw;
      throw FormatError(fmt::format("{}: {}", place, error.what()));
    }
  }
  AnswerRows take() { return std::move(rows_); }

 private:
  void add(const json& row) {
    switch (rows_.kind) {
      case RowKind::messages: {
        Conversation chat{chat_messages(row.at("messages"), "messages", place_), chat_tools(row, place_)};
        if (chat.messages[0].role == "assistant")
          throw FormatError("a conversation begins with the assistant; wanted a user's or the system's message first");
        return keep(encoder_.chats(chat, place_));
      }
      case RowKind::completion:
        return keep(completed(row, "completion"));
      case RowKind::text:
        return keep({encoder_.plain(text_field(row, "text", place_))});
      case RowKind::tokens:
        return keep({encoder_.given(row)});
      case RowKind::preference: {
        std::vector<AnswerText> pair = completed(row, "chosen");
        const std::vector<AnswerText> worse = completed(row, "rejected");
        pair.insert(pair.end(), worse.begin(), worse.end());
        return keep_pair(std::move(pair));
      }
    }
  }

  std::vector<AnswerText> completed(const json& row, const char* answer) const {
    const json* prompt = data::json_field(row, "prompt");
    const json* completion = data::json_field(row, answer);
    if (prompt == nullptr || completion == nullptr)
      throw FormatError(fmt::format("'{}' is missing", prompt == nullptr ? "prompt" : answer));
    if (prompt->is_array() != completion->is_array())
      throw FormatError(fmt::format("'prompt' and '{}' should both be texts, or both lists of messages", answer));
    Conversation chat;
    chat.tools = chat_tools(row, place_);
    if (prompt->is_array()) {
      chat.messages = chat_messages(*prompt, "prompt", place_);
      chat.first = chat.messages.size();
      for (ChatMessage& message : chat_messages(*completion, answer, place_))
        chat.messages.push_back(std::move(message));
      return encoder_.chats(chat, place_);
    }
    const std::string &question = text_field(row, "prompt", place_), &text = text_field(row, answer, place_);
    if (!encoder_.has_format()) return {encoder_.continued(question, text)};
    chat.messages = {{"user", question}, {"assistant", text}};
    chat.first = 1;
    return encoder_.chats(chat, place_);
  }

  void keep(std::vector<AnswerText> texts) {
    for (AnswerText& text : texts) {
      text.line = line_;
      for (AnswerText& part : cut(std::move(text))) keep_one(std::move(part));
    }
  }
  void keep_one(AnswerText text) {
    if (text.answers() == 0) return note(losses_.silent, losses_.first_silent);
    rows_.prompts.push_back(prompt_of(text));
    rows_.texts.push_back(std::move(text));
  }
  void keep_pair(std::vector<AnswerText> pair) {
    if (pair.size() != 2) throw FormatError("'chosen' and 'rejected' should have one answer each");
    for (AnswerText& text : pair) {
      text.line = line_;
      text = cut(std::move(text))[0];
    }
    if (pair[0].answers() == 0 || pair[1].answers() == 0) return note(losses_.silent, losses_.first_silent);
    rows_.prompts.push_back(prompt_of(pair[0]));
    for (AnswerText& text : pair) rows_.texts.push_back(std::move(text));
  }

  std::vector<std::int32_t> prompt_of(const AnswerText& text) const {
    auto count =
        static_cast<std::size_t>(std::find(text.learned.begin(), text.learned.end(), 1) - text.learned.begin());
    if (rows_.kind == RowKind::text || count == 0) count = std::min(kPromptOfText, (text.ids.size() + 1) / 2);
    return {text.ids.begin(), text.ids.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  std::vector<AnswerText> cut(AnswerText text) {
    const auto most = static_cast<std::size_t>(options_.most);
    if (most == 0 || text.ids.size() <= most) return {std::move(text)};
    note(losses_.cut, losses_.first_cut);
    std::vector<AnswerText> parts;
    // The last token of a part is the first of the next, so that each is foretold once.
    for (std::size_t at = 0; at + 1 < text.ids.size(); at += most - 1) {
      const auto begin = static_cast<std::ptrdiff_t>(at),
                 end = static_cast<std::ptrdiff_t>(std::min(text.ids.size(), at + most));
      parts.push_back({{text.ids.begin() + begin, text.ids.begin() + end},
                       {text.learned.begin() + begin, text.learned.begin() + end},
                       text.line});
      if (rows_.kind != RowKind::text) break;
    }
    return parts;
  }
  void note(std::size_t& count, std::size_t& first) const {
    if (count++ == 0) first = line_;
  }

  const RowEncoder encoder_;
  const RowOptions& options_;
  RowLosses& losses_;
  AnswerRows rows_;
  std::string place_;
  std::size_t line_ = 0;
};

/// @return whether there is a row
bool read_lines_of(const FilePath& file, RowReader& reader) {
  bool any = false;
  std::size_t number = 0;
  for (const std::string& line : data::read_lines(file)) {
    ++number;
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    any = true;
    const std::string place = fmt::format("{}, line {}", printable(file.string()), number);
    reader.read(data::parse_json_object(line, place, "row"), place, number);
  }
  return any;
}

/// Each text of a folder and those below it is a row, in the order of their names. @return whether there is one
bool read_folder(const FilePath& folder, RowReader& reader) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    const std::string kind = entry.path().extension().string();
    if (entry.is_regular_file(ignored) && (kind == ".txt" || kind == ".md")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i < files.size(); ++i)
    reader.read({{"text", data::read_text_file(files[i])}}, printable(files[i].string()), i + 1);
  return !files.empty();
}

}  // namespace

std::int64_t AnswerText::answers() const {
  return learned.empty() ? 0 : std::accumulate(learned.begin() + 1, learned.end(), std::int64_t{0});
}

const char* name(RowKind kind) {
  switch (kind) {
    case RowKind::messages:
      return "'messages'";
    case RowKind::completion:
      return "'prompt' and 'completion'";
    case RowKind::text:
      return "'text'";
    case RowKind::tokens:
      return "'tokens'";
    case RowKind::preference:
      break;
  }
  return "'prompt', 'chosen' and 'rejected'";
}

std::string RowLosses::str(std::int64_t most) const {
  std::string text;
  if (cut > 0) {
    text +=
        fmt::format("{} {} longer than {} tokens and cut, the first in line {}; --seq sets the length\n",
                    with_commas(static_cast<std::int64_t>(cut)), cut == 1 ? "text is" : "texts are", most, first_cut);
  }
  if (silent > 0) {
    text += fmt::format("{} {} no answer to learn from and left out, the first in line {}\n",
                        with_commas(static_cast<std::int64_t>(silent)), silent == 1 ? "row has" : "rows have",
                        first_silent);
  }
  return text;
}

AnswerRows read_answer_rows(const FilePath& file, const data::Tokenizer* tokenizer, const RowOptions& options,
                            RowLosses& losses) {
  const std::string path = printable(file.string());
  RowReader reader(tokenizer, options, losses);
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(file, ignored);
  if (!(folder ? read_folder(file, reader) : read_lines_of(file, reader))) {
    throw FormatError(folder ? fmt::format("{}: the folder has no texts; wanted files that end in .txt or .md", path)
                             : fmt::format("{}: the file has no rows; wanted one JSON object a line", path));
  }
  AnswerRows rows = reader.take();
  if (rows.texts.empty()) {
    throw FormatError(
        fmt::format("{}: no row has an answer to learn from; messages need some of the role \"assistant\", and --seq "
                    "room for them",
                    path));
  }
  return rows;
}

std::vector<TextPart> chat_parts(const data::Tokenizer& tokenizer, const std::string& chat_format,
                                 const std::vector<ChatMessage>& messages, const data::ChatOptions& options) {
  if (chat_format == kNoFormat || (chat_format.empty() && tokenizer.chat_template().empty())) {
    throw FormatError(
        "the model has no chat template, and messages need one; name a format by --chat-format, chatml for example");
  }
  return chat_format.empty() ? data::format_model_chat(tokenizer, messages, options)
                             : data::format_chat(chat_format, messages, options);
}

}  // namespace etna::training
