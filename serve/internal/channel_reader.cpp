#include <etna/serve/internal/channel_reader.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <etna/serve/internal/call_text.h>

namespace etna::serve {
namespace {

constexpr std::string_view kFunctions = "functions.", kRecipient = "to=";
/// Longer texts before a message are none of its header.
constexpr std::size_t kLongestHeader = 256;

constexpr std::array kHeaderBegins = {kChannelStart, kChannelName, kChannelConstrain, kChannelMessage, kRecipient};
constexpr std::array kBodyEnds = {kChannelEnd, kChannelCall, kChannelReturn, kChannelStart, kChannelName};

/// Whether a text begins as a header does; nullopt: more of it decides.
std::optional<bool> begins_header(std::string_view text) {
  bool may = false;
  for (const std::string_view word : kHeaderBegins) {
    if (text.starts_with(word)) return true;
    may = may || word.starts_with(text);
  }
  return may ? std::nullopt : std::optional(false);
}

/// The word behind a marker in a header; empty: it has none.
std::string_view word_behind(std::string_view header, std::string_view marker) {
  const std::size_t at = header.find(marker);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + marker.size());
  return rest.substr(0, rest.find_first_of(" \t\r\n<"));
}

}  // namespace

ChannelReader::ChannelReader(const std::vector<Tool>& tools, bool reasoning, std::function<std::string()> new_id)
    : new_id_(std::move(new_id)), part_(reasoning ? Part::reasoning : Part::header) {
  for (const Tool& tool : tools) tools_.insert(tool.name);
}

void ChannelReader::read(std::string_view piece, std::vector<AnswerEvent>& events) {
  pending_ += piece;
  run(false, events);
}

void ChannelReader::finish(std::vector<AnswerEvent>& events) {
  run(true, events);
  if (part_ == Part::call) end_call(false, events);
  part_ = Part::header;
}

void ChannelReader::run(bool final, std::vector<AnswerEvent>& events) {
  while (part_ == Part::header ? read_header(final, events) : read_body(final, events)) {}
}

/// @return whether a message begins
bool ChannelReader::read_header(bool final, std::vector<AnswerEvent>& events) {
  const std::size_t space = white_space(pending_);
  const std::string_view rest = std::string_view(pending_).substr(space);
  if (rest.empty() && (!final || began_ || pending_.empty())) return false;
  const std::optional<bool> header = begins_header(rest);
  const std::size_t at = rest.find(kChannelMessage);
  if (header == true && at != std::string_view::npos && at <= kLongestHeader) {
    const std::string given(rest.substr(0, at));
    pending_.erase(0, space + at + kChannelMessage.size());
    began_ = true;
    begin_message(given, events);
    return true;
  }
  const bool may_come = rest.size() <= kLongestHeader + kChannelMessage.size() && at == std::string_view::npos;
  if (header != false && may_come) {
    if (!final) return false;
    if (header == true && rest.starts_with('<')) {
      pending_.clear();  // markup that was cut off
      return false;
    }
  }
  // Text without a header.
  if (began_) pending_.erase(0, space);
  began_ = true;
  part_ = Part::text;
  blank_line_ = wrote_text_;
  return true;
}

void ChannelReader::begin_message(std::string_view header, std::vector<AnswerEvent>& events) {
  const std::string_view recipient = word_behind(header, "to=");
  if (recipient.starts_with(kFunctions) && tools_.contains(std::string(recipient.substr(kFunctions.size())))) {
    part_ = Part::call;
    has_arguments_ = false;
    AnswerEvent event;
    event.kind = EventKind::tool_call_begins;
    event.tool_call = calls_++;
    event.tool_id = new_id_ ? new_id_() : "call_" + std::to_string(event.tool_call);
    event.tool_name = recipient.substr(kFunctions.size());
    events.push_back(std::move(event));
    return;
  }
  if (recipient.empty() && word_behind(header, kChannelName) == "analysis") {
    part_ = Part::reasoning;
    blank_line_ = wrote_reasoning_;
    return;
  }
  part_ = Part::text;
  blank_line_ = wrote_text_;
  // A call of what the request does not have is text, whole.
  whole_ = !recipient.empty();
  if (whole_) emit(std::string(header) + std::string(kChannelMessage), events);
}

/// @return whether the message ends
bool ChannelReader::read_body(bool final, std::vector<AnswerEvent>& events) {
  std::size_t at = std::string::npos, held = 0;
  std::string_view found;
  for (const std::string_view end : kBodyEnds) {
    if (const std::size_t first = pending_.find(end); first < at) {
      at = first;
      found = end;
    }
    for (std::size_t length = std::min(pending_.size(), end.size() - 1); length > held; --length)
      if (pending_.ends_with(end.substr(0, length))) held = length;
  }
  const std::size_t known = at != std::string::npos ? at : pending_.size() - (final ? 0 : held);
  emit(pending_.substr(0, known), events);
  if (at == std::string::npos) {
    pending_.erase(0, known);
    return false;
  }
  const bool begins_next = found == kChannelStart || found == kChannelName;
  pending_.erase(0, at + (begins_next ? 0 : found.size()));
  if (part_ == Part::text && std::exchange(whole_, false) && !begins_next) emit(std::string(found), events);
  if (part_ == Part::call) end_call(true, events);
  part_ = Part::header;
  return true;
}

void ChannelReader::emit(std::string text, std::vector<AnswerEvent>& events) {
  if (part_ == Part::call && !has_arguments_) text.erase(0, white_space(text));
  if (text.empty()) return;
  if (std::exchange(blank_line_, false)) text.insert(0, "\n\n");
  AnswerEvent event;
  event.text = std::move(text);
  switch (part_) {
    case Part::reasoning:
      event.kind = EventKind::reasoning;
      wrote_reasoning_ = true;
      break;
    case Part::call:
      event.kind = EventKind::tool_call_arguments;
      event.tool_call = calls_ - 1;
      has_arguments_ = true;
      break;
    case Part::header:
    case Part::text:
      wrote_text_ = true;
      break;
  }
  events.push_back(std::move(event));
}

void ChannelReader::end_call(bool whole, std::vector<AnswerEvent>& events) {
  if (whole && !has_arguments_) emit("{}", events);
  AnswerEvent event;
  event.kind = EventKind::tool_call_ends;
  event.tool_call = calls_ - 1;
  events.push_back(std::move(event));
}

}  // namespace etna::serve
