#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <etna/serve/answer_event.h>
#include <etna/serve/chat_request.h>

/// Answers in OpenAI's harmony format (gpt-oss): messages with a channel each. Internal.
namespace etna::serve {

constexpr std::string_view kChannelStart = "<|start|>", kChannelName = "<|channel|>", kChannelMessage = "<|message|>",
                           kChannelConstrain = "<|constrain|>", kChannelEnd = "<|end|>", kChannelCall = "<|call|>",
                           kChannelReturn = "<|return|>";

/// Splits an answer into its messages: `<|channel|>analysis<|message|>…<|end|>` is reasoning, the channels final and
/// commentary are text, and a message `to=functions.NAME` calls a tool, whose arguments are reported as they come.
/// Headers come out only where they are none of these; messages of one kind are a blank line apart.
class ChannelReader {
 public:
  /// @param reasoning the answer begins within a message of reasoning
  ChannelReader(const std::vector<Tool>& tools, bool reasoning, std::function<std::string()> new_id);

  /// Appends the events that a piece of the answer leads to.
  void read(std::string_view piece, std::vector<AnswerEvent>& events);
  /// The answer ends here.
  void finish(std::vector<AnswerEvent>& events);

  bool in_reasoning() const { return part_ == Part::reasoning; }
  std::int64_t calls() const { return calls_; }

 private:
  enum class Part : std::uint8_t { header, text, reasoning, call };

  void run(bool final, std::vector<AnswerEvent>& events);
  bool read_header(bool final, std::vector<AnswerEvent>& events);
  bool read_body(bool final, std::vector<AnswerEvent>& events);
  void begin_message(std::string_view header, std::vector<AnswerEvent>& events);
  void emit(std::string text, std::vector<AnswerEvent>& events);
  void end_call(bool whole, std::vector<AnswerEvent>& events);

  std::set<std::string> tools_;
  std::function<std::string()> new_id_;
  Part part_ = Part::header;
  std::string pending_;  ///< not yet decided
  bool began_ = false;   ///< something other than white space came
  bool whole_ = false;   ///< text: with its markup
  bool wrote_text_ = false, wrote_reasoning_ = false;
  bool blank_line_ = false;  ///< comes before the next text, since another message was before
  bool has_arguments_ = false;
  std::int64_t calls_ = 0;
};

}  // namespace etna::serve
