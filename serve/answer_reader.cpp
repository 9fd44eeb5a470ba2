#include <etna/serve/answer_reader.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <etna/serve/json_text.h>

namespace etna::serve {
namespace {

/// The length of the longest end of a text that one of the words begins with.
std::size_t begun(std::string_view text, std::span<const std::string> words) {
  std::size_t longest = 0;
  for (const std::string& word : words)
    for (std::size_t length = std::min(text.size(), word.size() - 1); length > longest; --length)
      if (text.ends_with(std::string_view(word).substr(0, length))) longest = length;
  return longest;
}

/// The first of some words in a text; of two at one place, the longer one. @return where, and which
std::pair<std::size_t, std::string> first_of(std::string_view text, std::span<const std::string> words) {
  std::pair<std::size_t, std::string> found{std::string_view::npos, ""};
  for (const std::string& word : words) {
    const std::size_t at = text.find(word);
    if (at == std::string_view::npos) continue;
    if (at < found.first || (at == found.first && word.size() > found.second.size())) found = {at, word};
  }
  return found;
}

/// Where white space at the end of the first `end` bytes begins.
std::size_t trailing_space(std::string_view text, std::size_t end) {
  const std::size_t last = text.substr(0, end).find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? 0 : last + 1;
}

std::set<std::string> string_parameters(const Tool& tool) {
  std::set<std::string> names;
  const Json schema = Json::parse(tool.parameters, nullptr, false);
  if (!schema.is_object() || !schema.contains("properties") || !schema["properties"].is_object()) return names;
  for (const auto& item : schema["properties"].items()) {
    const Json& value = item.value();
    if (value.is_object() && value.contains("type") && value["type"] == "string") names.insert(item.key());
  }
  return names;
}

}  // namespace

AnswerReader::AnswerReader(AnswerReaderOptions options) : options_(std::move(options)) {
  for (const Tool& tool : options_.tools) strings_[tool.name] = string_parameters(tool);
  if (!options_.tools.empty()) openers_ = call_openers(options_.syntax);
  if (options_.syntax.calls == CallForm::channels)
    channels_ = std::make_unique<ChannelReader>(options_.tools, options_.reasoning, options_.new_id);
  if (options_.reasoning && !options_.syntax.think_close.empty()) state_ = State::reasoning;
}

void AnswerReader::read(std::string_view piece, std::vector<AnswerEvent>& events) {
  if (channels_) return channels_->read(piece, events);
  pending_ += piece;
  run(false, events);
}

void AnswerReader::finish(std::vector<AnswerEvent>& events) {
  if (channels_) return channels_->finish(events);
  run(true, events);
  if (state_ == State::arguments || state_ == State::parameters) end_call(events);
}

/// Each function returns whether it got on, so that another turn may get further.
void AnswerReader::run(bool final, std::vector<AnswerEvent>& events) {
  for (bool on = true; on;) {
    switch (state_) {
      case State::start:
      case State::after_reasoning:
        on = read_start(final);
        break;
      case State::reasoning:
        on = read_reasoning(final, events);
        break;
      case State::text:
        on = read_text(final, events);
        break;
      case State::head:
        on = read_head(final, events);
        break;
      case State::arguments:
        on = read_arguments(events);
        break;
      case State::parameters:
        on = read_parameters(final, events);
        break;
      case State::tail:
        on = read_tail(final);
        break;
    }
  }
}

/// Reasoning opens an answer, or it does not come at all; white space behind it is skipped.
bool AnswerReader::read_start(bool final) {
  const std::size_t space = white_space(pending_);
  const std::string_view rest = std::string_view(pending_).substr(space);
  const std::string& open = options_.syntax.think_open;
  if (rest.empty() && !final) return false;
  if (state_ == State::after_reasoning) {
    pending_.erase(0, space);
  } else if (!open.empty()) {
    if (!final && rest.size() < open.size() && open.starts_with(rest)) return false;
    if (rest.starts_with(open)) {
      pending_.erase(0, space + open.size());
      state_ = State::reasoning;
      return true;
    }
  }
  state_ = State::text;
  return true;
}

bool AnswerReader::read_reasoning(bool final, std::vector<AnswerEvent>& events) {
  const std::string& close = options_.syntax.think_close;
  const std::string_view text = pending_;
  const std::size_t at = text.find(close);
  const std::size_t known =
      at != std::string_view::npos ? at : text.size() - (final ? 0 : begun(text, std::span(&close, 1)));
  // White space at both ends waits for what follows it.
  const std::size_t begin = !reasoned_ ? std::min(white_space(text), known) : 0;
  const std::size_t end = std::max(begin, trailing_space(text, known));
  emit(EventKind::reasoning, pending_.substr(begin, end - begin), events);
  reasoned_ = reasoned_ || end > begin;
  if (at == std::string_view::npos) {
    pending_.erase(0, final ? pending_.size() : reasoned_ ? end : begin);
    return false;
  }
  pending_.erase(0, at + close.size());
  state_ = State::after_reasoning;
  return true;
}

bool AnswerReader::may_be_object() const {
  return options_.syntax.calls == CallForm::llama && !options_.tools.empty() && !wrote_text_ && !no_object_;
}

bool AnswerReader::read_text(bool final, std::vector<AnswerEvent>& events) {
  const std::size_t space = white_space(pending_);
  if (may_be_object() && space < pending_.size() && pending_[space] == '{') {
    opener_.clear();
    before_ = space;
    state_ = State::head;
    return true;
  }
  auto [at, opener] = first_of(pending_, openers_);
  const std::size_t held = final ? 0 : begun(pending_, openers_);
  if (at != std::string::npos) {
    const std::size_t end = trailing_space(pending_, at);
    emit(EventKind::text, pending_.substr(0, end), events);
    pending_.erase(0, end);
    before_ = at - end + opener.size();
    opener_ = std::move(opener);
    state_ = State::head;
    return true;
  }
  const std::size_t known = pending_.size() - held;
  std::size_t end = openers_.empty() ? known : trailing_space(pending_, known);
  if (final) end = calls_ > 0 && !wrote_since_call_ && trailing_space(pending_, known) == 0 ? 0 : known;
  emit(EventKind::text, pending_.substr(0, end), events);
  pending_.erase(0, final ? pending_.size() : end);
  return false;
}

bool AnswerReader::read_head(bool final, std::vector<AnswerEvent>& events) {
  CallHead head = read_call_head(options_.syntax, opener_, std::string_view(pending_).substr(before_));
  if (head.outcome == Outcome::incomplete && !final) return false;
  const bool call = (head.outcome == Outcome::begins || head.outcome == Outcome::whole) && strings_.contains(head.name);
  if (!call) {
    // No call: the opener is text, and what follows it is read again.
    no_object_ = true;
    const std::size_t given = opener_.empty() ? before_ + 1 : before_;
    emit(EventKind::text, pending_.substr(0, given), events);
    pending_.erase(0, given);
    state_ = State::text;
    return true;
  }
  head_ = std::move(head);
  pending_.erase(0, before_ + head_.end);
  begin_call(events);
  if (head_.outcome == Outcome::whole) {
    emit(EventKind::tool_call_arguments, head_.arguments, events);
    end_call(events);
    state_ = State::tail;
  } else if (head_.tags != nullptr) {
    emit(EventKind::tool_call_arguments, "{", events);
    parameters_ = 0;
    state_ = State::parameters;
  } else {
    json_ = JsonEnd();
    state_ = State::arguments;
  }
  return true;
}

bool AnswerReader::read_arguments(std::vector<AnswerEvent>& events) {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (!json_.push(pending_[i])) continue;
    emit(EventKind::tool_call_arguments, pending_.substr(0, i + 1), events);
    pending_.erase(0, i + 1);
    end_call(events);
    state_ = State::tail;
    return true;
  }
  emit(EventKind::tool_call_arguments, std::exchange(pending_, ""), events);
  return false;
}

/// Keys and values in tags, up to the end of the call. A value is read as a whole.
bool AnswerReader::read_parameters(bool final, std::vector<AnswerEvent>& events) {
  const ArgumentTags& tags = *head_.tags;
  const std::size_t space = white_space(pending_);
  const std::string_view rest = std::string_view(pending_).substr(space);
  const auto may_become = [&](std::string_view word) { return rest.size() < word.size() && word.starts_with(rest); };
  const std::string separator = parameters_ > 0 ? ", " : "";
  if (rest.starts_with(tags.key_open)) {
    const std::size_t key_end = rest.find(tags.key_close, tags.key_open.size());
    const std::size_t behind = key_end == std::string_view::npos ? key_end : key_end + tags.key_close.size();
    const std::size_t open = behind == std::string_view::npos ? behind : rest.find(tags.value_open, behind);
    const std::size_t begin = open == std::string_view::npos ? open : open + tags.value_open.size();
    const std::size_t end = begin == std::string_view::npos ? begin : rest.find(tags.value_close, begin);
    if (end == std::string_view::npos && !final) return false;
    if (begin == std::string_view::npos) {
      pending_.clear();
      return false;
    }
    const std::string key(rest.substr(tags.key_open.size(), key_end - tags.key_open.size()));
    std::string value(rest.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (tags.lines && value.starts_with('\n')) value.erase(0, 1);
    if (end == std::string_view::npos) {
      // Cut off: a string without its end says so.
      std::string quoted = json_text(value);
      quoted.pop_back();
      emit(EventKind::tool_call_arguments, separator + json_text(key) + ": " + quoted, events);
      pending_.clear();
      return false;
    }
    if (tags.lines && value.ends_with('\n')) value.pop_back();
    emit(EventKind::tool_call_arguments, separator + json_text(key) + ": " + parameter_json(key, value), events);
    ++parameters_;
    pending_.erase(0, space + end + tags.value_close.size());
    return true;
  }
  if (!final && (may_become(tags.key_open) || may_become(tags.call_close))) return false;
  if (final && rest.empty()) return false;
  // The end of the call, or what is not a part of it, which is text.
  emit(EventKind::tool_call_arguments, "}", events);
  pending_.erase(0, rest.starts_with(tags.call_close) ? space + tags.call_close.size() : space);
  end_call(events);
  state_ = State::tail;
  return true;
}

std::string AnswerReader::parameter_json(const std::string& key, const std::string& value) const {
  const bool string = strings_.at(head_.name).contains(key);
  if (!string && Json::accept(value)) return value;
  return json_text(value);
}

bool AnswerReader::read_tail(bool final) {
  const CallTail tail = read_call_tail(options_.syntax.calls, head_, pending_, final);
  if (tail.incomplete) return false;
  opener_.clear();
  pending_.erase(0, tail.end);
  before_ = tail.next > 0 ? tail.next - tail.end : 0;
  state_ = tail.next > 0 ? State::head : State::text;
  return true;
}

void AnswerReader::emit(EventKind kind, std::string text, std::vector<AnswerEvent>& events) {
  if (text.empty()) return;
  if (kind == EventKind::text && white_space(text) < text.size()) wrote_text_ = wrote_since_call_ = true;
  AnswerEvent event;
  event.kind = kind;
  event.text = std::move(text);
  if (kind == EventKind::tool_call_arguments) event.tool_call = calls_ - 1;
  events.push_back(std::move(event));
}

void AnswerReader::begin_call(std::vector<AnswerEvent>& events) {
  wrote_since_call_ = false;
  AnswerEvent event;
  event.kind = EventKind::tool_call_begins;
  event.tool_call = calls_++;
  event.tool_id = options_.new_id ? options_.new_id() : "call_" + std::to_string(event.tool_call);
  event.tool_name = head_.name;
  events.push_back(std::move(event));
}

void AnswerReader::end_call(std::vector<AnswerEvent>& events) {
  AnswerEvent event;
  event.kind = EventKind::tool_call_ends;
  event.tool_call = calls_ - 1;
  events.push_back(std::move(event));
}

}  // namespace etna::serve
