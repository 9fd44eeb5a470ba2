#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/serve/answer_event.h>
#include <etna/serve/answer_syntax.h>
#include <etna/serve/chat_request.h>
#include <etna/serve/internal/call_text.h>
#include <etna/serve/internal/channel_reader.h>

namespace etna::serve {

struct AnswerReaderOptions {
  AnswerSyntax syntax = {};
  std::vector<Tool> tools = {};              ///< that may be called; without tools all is text or reasoning
  bool reasoning = false;                    ///< the answer begins within reasoning, which the prompt opened
  std::function<std::string()> new_id = {};  ///< of calls
};

/// Splits the text of an answer into reasoning, text and calls of tools. However the text is cut into pieces, the
/// events are the same but for how their texts are cut.
///
/// White space around reasoning, and around calls, belongs to the markup. Everything else of the answer comes out, in
/// its order. What begins like a call but is none (an unknown tool, another form) is text, whole: nothing of it was
/// reported before. Once a call's name and the beginning of its arguments are known, it is a call, and its arguments
/// are passed on as they come; what does not belong to it after their end is text again. An answer that ends in the
/// middle of the arguments leaves them unfinished.
class AnswerReader {
 public:
  explicit AnswerReader(AnswerReaderOptions options);

  /// Appends the events that a piece of the answer leads to.
  void read(std::string_view piece, std::vector<AnswerEvent>& events);
  /// The answer ends here.
  void finish(std::vector<AnswerEvent>& events);

  bool in_reasoning() const { return channels_ ? channels_->in_reasoning() : state_ == State::reasoning; }
  std::int64_t calls() const { return channels_ ? channels_->calls() : calls_; }

 private:
  enum class State : std::uint8_t { start, reasoning, after_reasoning, text, head, arguments, parameters, tail };

  void run(bool final, std::vector<AnswerEvent>& events);
  bool read_start(bool final);
  bool read_reasoning(bool final, std::vector<AnswerEvent>& events);
  bool read_text(bool final, std::vector<AnswerEvent>& events);
  bool read_head(bool final, std::vector<AnswerEvent>& events);
  bool read_arguments(std::vector<AnswerEvent>& events);
  bool read_parameters(bool final, std::vector<AnswerEvent>& events);
  bool read_tail(bool final);
  void emit(EventKind kind, std::string text, std::vector<AnswerEvent>& events);
  void begin_call(std::vector<AnswerEvent>& events);
  void end_call(std::vector<AnswerEvent>& events);
  bool may_be_object() const;
  std::string parameter_json(const std::string& key, const std::string& value) const;

  const AnswerReaderOptions options_;
  std::map<std::string, std::set<std::string>> strings_;  ///< by tool: parameters that are strings
  std::vector<std::string> openers_;
  std::unique_ptr<ChannelReader> channels_;  ///< reads everything where the syntax has channels
  State state_ = State::start;
  std::string pending_;     ///< not yet decided
  std::string opener_;      ///< head: the marker of the call; empty: none
  std::size_t before_ = 0;  ///< head: bytes of pending_ before the call's own text
  CallHead head_;
  JsonEnd json_;
  bool reasoned_ = false, wrote_text_ = false;
  bool wrote_since_call_ = false;
  bool no_object_ = false;  ///< llama: the '{' at the beginning was no call
  std::int64_t calls_ = 0, parameters_ = 0;
};

}  // namespace etna::serve
