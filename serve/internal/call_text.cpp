#include <etna/serve/internal/call_text.h>

#include <algorithm>
#include <optional>

#include <etna/serve/json_text.h>

namespace etna::serve {
namespace {

constexpr std::size_t kLongestName = 64;

/// The end of a JSON value at the beginning of a text; nullopt: not there yet.
std::optional<std::size_t> value_end(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (text[0] != '{' && text[0] != '[' && text[0] != '"') {
    const std::size_t end = text.find_first_of(",}] \t\r\n");
    return end == std::string_view::npos ? std::nullopt : std::optional(end);
  }
  JsonEnd json;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (json.push(text[i])) return i + 1;
  return std::nullopt;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

std::optional<Json> json_of(std::string_view text) {
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? std::nullopt : std::optional(std::move(value));
}

CallHead outcome(Outcome kind) {
  CallHead head;
  head.outcome = kind;
  return head;
}

/// Whether the text begins with a word; nullopt: its beginning may become the word.
std::optional<bool> begins_with(std::string_view text, std::string_view word) {
  if (text.starts_with(word)) return true;
  return word.starts_with(text) ? std::nullopt : std::optional(false);
}

/// Arguments that came as a whole: an object, an object in a string, or nothing.
bool take_arguments(std::string_view text, std::string& arguments) {
  const std::optional<Json> value = json_of(text);
  if (!value) return false;
  if (value->is_object()) {
    arguments = text;
  } else if (value->is_string()) {
    arguments = value->get<std::string>();
    const std::optional<Json> inner = json_of(arguments);
    return inner && inner->is_object();
  } else {
    arguments = "{}";
    return value->is_null();
  }
  return true;
}

/// {"name": ..., "arguments": ...}, with other fields in any order.
CallHead read_object(std::string_view text) {
  CallHead head;
  head.object = true;
  std::size_t at = 1;
  std::optional<std::string> arguments;
  for (bool first = true;; first = false) {
    at += white_space(text.substr(at));
    if (at >= text.size()) return outcome(Outcome::incomplete);
    if (text[at] == '}' && (first || !head.name.empty())) break;
    if (!first) {
      if (text[at] != ',') return outcome(Outcome::malformed);
      at += 1 + white_space(text.substr(at + 1));
      if (at >= text.size()) return outcome(Outcome::incomplete);
    }
    if (text[at] != '"') return outcome(Outcome::malformed);
    const std::optional<std::size_t> key_end = value_end(text.substr(at));
    if (!key_end) return outcome(Outcome::incomplete);
    const std::string_view key = text.substr(at + 1, *key_end - 2);
    at += *key_end;
    at += white_space(text.substr(at));
    if (at >= text.size()) return outcome(Outcome::incomplete);
    if (text[at] != ':') return outcome(Outcome::malformed);
    at += 1 + white_space(text.substr(at + 1));
    if (at >= text.size()) return outcome(Outcome::incomplete);
    const bool is_arguments = key == "arguments" || key == "parameters";
    if (is_arguments && !head.name.empty() && text[at] == '{') {
      head.outcome = Outcome::begins;
      head.end = at;
      return head;
    }
    const std::optional<std::size_t> end = value_end(text.substr(at));
    if (!end) return outcome(Outcome::incomplete);
    const std::string_view value = text.substr(at, *end);
    at += *end;
    if (key == "name" || key == "tool_name") {
      const std::optional<Json> name = json_of(value);
      if (!name || !name->is_string() || !is_name(name->get_ref<const std::string&>()))
        return outcome(Outcome::malformed);
      head.name = name->get<std::string>();
    } else if (is_arguments) {
      if (!take_arguments(value, arguments.emplace())) return outcome(Outcome::malformed);
    } else if (!json_of(value)) {
      return outcome(Outcome::malformed);
    }
  }
  if (head.name.empty()) return outcome(Outcome::malformed);
  head.outcome = Outcome::whole;
  head.arguments = arguments.value_or("{}");
  head.end = at + 1;
  return head;
}

CallHead shifted(CallHead head, std::size_t by) {
  head.end += by;
  return head;
}

/// [{...}, {...}]: its first element.
CallHead read_list(std::string_view text, std::size_t at) {
  at += 1 + white_space(text.substr(at + 1));
  if (at >= text.size()) return outcome(Outcome::incomplete);
  if (text[at] != '{') return outcome(Outcome::malformed);
  CallHead head = shifted(read_object(text.substr(at)), at);
  head.list = true;
  return head;
}

/// A name up to a separator, then '{'.
CallHead read_named(std::string_view text, std::size_t name_end, std::string_view name, std::size_t separator) {
  std::size_t at = name_end + separator;
  at += white_space(text.substr(at));
  if (at >= text.size()) return outcome(Outcome::incomplete);
  if (text[at] != '{' || !is_name(name)) return outcome(Outcome::malformed);
  CallHead head = outcome(Outcome::begins);
  head.name = name;
  head.end = at;
  return head;
}

/// name[ARGS]{...}, name[CALL_ID]id[ARGS]{...}, name{...}
CallHead read_mistral(std::string_view text, std::size_t at) {
  const std::size_t end = text.find_first_of("[{", at);
  if (end == std::string_view::npos)
    return outcome(text.size() - at > kLongestName + 1 ? Outcome::malformed : Outcome::incomplete);
  std::string_view name = text.substr(at, end - at);
  while (!name.empty() && white_space(name.substr(name.size() - 1)) > 0) name.remove_suffix(1);
  if (text[end] == '{') return read_named(text, end, name, 0);
  std::size_t from = end;
  const std::optional<bool> id = begins_with(text.substr(from), "[CALL_ID]");
  if (id == true) {
    from = text.find("[ARGS]", from);
    if (from == std::string_view::npos)
      return outcome(text.size() - end > 2 * kLongestName ? Outcome::malformed : Outcome::incomplete);
  }
  const std::optional<bool> arguments = begins_with(text.substr(from), "[ARGS]");
  if (arguments == true) return read_named(text, from, name, 6);
  return outcome(!id || !arguments ? Outcome::incomplete : Outcome::malformed);
}

/// [function]<｜tool▁sep｜>name and a fence, or name<｜tool▁sep｜>
CallHead read_deepseek(std::string_view text, std::size_t at) {
  const std::size_t end = text.find(kDeepseekSeparator, at);
  if (end == std::string_view::npos)
    return outcome(text.size() - at > kLongestName + kDeepseekSeparator.size() ? Outcome::malformed
                                                                               : Outcome::incomplete);
  const std::string_view before = text.substr(at, end - at);
  const std::size_t after = end + kDeepseekSeparator.size();
  const std::size_t first = after + white_space(text.substr(after));
  if (first >= text.size()) return outcome(Outcome::incomplete);
  if (text[first] == '{') return read_named(text, end, before, kDeepseekSeparator.size());
  if (before != "function") return outcome(Outcome::malformed);
  const std::size_t line = text.find('\n', after);
  if (line == std::string_view::npos)
    return outcome(text.size() - after > kLongestName ? Outcome::malformed : Outcome::incomplete);
  const std::size_t fence = line + white_space(text.substr(line));
  const std::optional<bool> fenced = begins_with(text.substr(fence), "```json");
  if (!fenced) return outcome(Outcome::incomplete);
  return *fenced ? read_named(text, fence, text.substr(after, line - after), 7) : outcome(Outcome::malformed);
}

/// name> after <function=
CallHead read_function(std::string_view text, std::size_t at) {
  const std::size_t end = text.find('>', at);
  if (end == std::string_view::npos)
    return outcome(text.size() - at > kLongestName ? Outcome::malformed : Outcome::incomplete);
  const std::string_view name = text.substr(at, end - at);
  if (!is_name(name)) return outcome(Outcome::malformed);
  CallHead head = outcome(Outcome::begins);
  head.name = name;
  head.end = end + 1;
  head.tags = &kFunctionTags;
  return head;
}

/// name, then <arg_key> or </tool_call>
CallHead read_glm(std::string_view text, std::size_t at) {
  const std::size_t end = text.find_first_of("\n<", at);
  if (end == std::string_view::npos)
    return outcome(text.size() - at > kLongestName + 1 ? Outcome::malformed : Outcome::incomplete);
  std::string_view name = text.substr(at, end - at);
  while (!name.empty() && white_space(name.substr(name.size() - 1)) > 0) name.remove_suffix(1);
  if (!is_name(name)) return outcome(Outcome::malformed);
  const std::size_t next = end + white_space(text.substr(end));
  const std::optional<bool> key = begins_with(text.substr(next), kGlmKeys.key_open);
  const std::optional<bool> close = begins_with(text.substr(next), kGlmKeys.call_close);
  if (key != true && close != true) return outcome(!key || !close ? Outcome::incomplete : Outcome::malformed);
  CallHead head = outcome(Outcome::begins);
  head.name = name;
  head.end = next;
  head.tags = &kGlmKeys;
  return head;
}

}  // namespace

bool JsonEnd::push(char c) {
  if (quoted_) {
    if (escaped_)
      escaped_ = false;
    else if (c == '\\')
      escaped_ = true;
    else if (c == '"')
      quoted_ = false;
    return !quoted_ && depth_ == 0;
  }
  if (c == '"') quoted_ = true;
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') return --depth_ <= 0;
  return false;
}

std::size_t white_space(std::string_view text) { return std::min(text.find_first_not_of(" \t\r\n"), text.size()); }

std::vector<std::string> call_openers(const AnswerSyntax& syntax) {
  switch (syntax.calls) {
    case CallForm::tagged:
      if (syntax.xml) return {"<tool_call>", "<function="};
      return {"<tool_call>"};
    case CallForm::glm:
      return {"<tool_call>"};
    case CallForm::llama:
      return {"<|python_tag|>"};
    case CallForm::mistral:
      return {"[TOOL_CALLS]"};
    case CallForm::deepseek:
      return {std::string(kDeepseekCalls), std::string(kDeepseekCall)};
    case CallForm::granite:
      return {"<|tool_call|>", "<tool_call>"};
    case CallForm::command:
      return {"<|START_ACTION|>"};
    case CallForm::channels:
    case CallForm::none:
      break;
  }
  return {};
}

std::vector<std::string> call_closers(CallForm form) {
  switch (form) {
    case CallForm::tagged:
      return {"</tool_call>"};
    case CallForm::llama:
      return {"<|eom_id|>", ";"};
    case CallForm::deepseek:
      return {"```",
              "<\xEF\xBD\x9Ctool\xE2\x96\x81"
              "call\xE2\x96\x81"
              "end\xEF\xBD\x9C>",
              "<\xEF\xBD\x9Ctool\xE2\x96\x81"
              "calls\xE2\x96\x81"
              "end\xEF\xBD\x9C>"};
    case CallForm::granite:
      return {"<|/tool_call|>", "</tool_call>"};
    case CallForm::command:
      return {"<|END_ACTION|>"};
    case CallForm::mistral:
    case CallForm::glm:
    case CallForm::channels:
    case CallForm::none:
      break;
  }
  return {};
}

CallHead read_call_head(const AnswerSyntax& syntax, std::string_view opener, std::string_view text) {
  if (opener == "<function=") return read_function(text, 0);
  std::size_t at = white_space(text);
  if (opener == kDeepseekCalls) {
    const std::optional<bool> call = begins_with(text.substr(at), kDeepseekCall);
    if (call != true) return outcome(call ? Outcome::malformed : Outcome::incomplete);
    at += kDeepseekCall.size();
    return read_deepseek(text, at);
  }
  if (opener == kDeepseekCall) return read_deepseek(text, 0);
  if (at >= text.size()) return outcome(Outcome::incomplete);
  if (syntax.calls == CallForm::glm) return read_glm(text, at);
  if (text[at] == '{') {
    CallHead head = shifted(read_object(text.substr(at)), at);
    head.list = opener.empty() && syntax.calls != CallForm::llama;
    return head;
  }
  if (text[at] == '[' && syntax.calls != CallForm::llama) return read_list(text, at);
  if (syntax.calls == CallForm::mistral) return read_mistral(text, at);
  if (syntax.calls == CallForm::tagged) {
    const std::optional<bool> function = begins_with(text.substr(at), "<function=");
    if (!function) return outcome(Outcome::incomplete);
    if (*function) return read_function(text, at + 10);
  }
  return outcome(Outcome::malformed);
}

CallTail read_call_tail(CallForm form, const CallHead& head, std::string_view text, bool final) {
  const CallTail more{.incomplete = !final, .end = text.size()};
  CallTail tail;
  if (head.object && head.outcome == Outcome::begins) {
    // The rest of the object: more fields, which say nothing, and its end.
    for (;;) {
      std::size_t at = tail.end + white_space(text.substr(tail.end));
      if (at >= text.size()) return more;
      if (text[at] == '}') {
        tail.end = at + 1;
        break;
      }
      if (text[at] != ',') return tail;
      at += 1 + white_space(text.substr(at + 1));
      if (at >= text.size()) return more;
      if (text[at] != '"') return tail;
      const std::optional<std::size_t> key = value_end(text.substr(at));
      if (!key) return more;
      at += *key;
      at += white_space(text.substr(at));
      if (at >= text.size()) return more;
      if (text[at] != ':') return tail;
      at += 1 + white_space(text.substr(at + 1));
      const std::optional<std::size_t> value = value_end(text.substr(std::min(at, text.size())));
      if (!value) return more;
      tail.end = at + *value;
    }
  }
  if (head.list) {
    const std::size_t at = tail.end + white_space(text.substr(tail.end));
    if (at >= text.size()) return more;
    if (text[at] == ',') {
      const std::size_t next = at + 1 + white_space(text.substr(at + 1));
      if (next >= text.size()) return more;
      if (text[next] == '{') return {.end = tail.end, .next = next};
      return tail;
    }
    if (text[at] != ']') return tail;
    tail.end = at + 1;
  }
  for (const std::string& closer : call_closers(form)) {
    const std::size_t at = tail.end + white_space(text.substr(tail.end));
    const std::string_view rest = text.substr(at);
    if (rest.starts_with(closer)) {
      tail.end = at + closer.size();
    } else if (std::string_view(closer).starts_with(rest) && !final) {
      return more;  // an empty rest, too
    } else if (rest.empty()) {
      break;
    }
  }
  return tail;
}

}  // namespace etna::serve
