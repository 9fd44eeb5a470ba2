#include <etna/train/internal/chat_fields.h>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/device/error.h>

namespace etna::training {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_field(const std::string& place, const std::string& field, const json& value,
                               const char* wanted) {
  throw FormatError(fmt::format("{}: '{}' is {}; wanted {}", place, field, data::json_brief(value), wanted));
}

/// A text that may be missing or null.
std::string optional_text(const json& object, const char* field, const std::string& place) {
  const json* value = data::json_field(object, field);
  if (value == nullptr) return "";
  if (!value->is_string()) refuse_field(place, field, *value, "a text");
  return value->get<std::string>();
}

/// A text, or a list of parts of type "text".
std::string content_of(const json& message, const std::string& place) {
  const json* value = data::json_field(message, "content");
  if (value == nullptr || !value->is_array()) return optional_text(message, "content", place);
  std::string text;
  for (const json& part : *value) {
    const json* own = data::json_field(part, "text");
    if (own == nullptr || !own->is_string()) refuse_field(place, "content", part, "parts of type \"text\" alone");
    text += own->get<std::string>();
  }
  return text;
}

/// An object as text, or a text as it is.
std::string object_text(const json& object, const char* field, const std::string& place) {
  const json* value = data::json_field(object, field);
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_object()) refuse_field(place, field, *value, "an object");
  return value->dump();
}

/// What {"type": "function", "function": {...}} holds, or the object itself.
const json& function_of(const json& object) {
  const json* own = data::json_field(object, "function");
  return own == nullptr ? object : *own;
}

std::vector<data::ToolCall> tool_calls(const json& message, const std::string& place) {
  std::vector<data::ToolCall> calls;
  const json* list = data::json_field(message, "tool_calls");
  if (list == nullptr) return calls;
  if (!list->is_array()) refuse_field(place, "tool_calls", *list, "a list");
  for (const json& call : *list) {
    if (!call.is_object()) refuse_field(place, "tool_calls", call, "objects");
    const json& function = function_of(call);
    calls.push_back({optional_text(call, "id", place), text_field(function, "name", place + ", tool_calls"),
                     object_text(function, "arguments", place)});
  }
  return calls;
}

}  // namespace

const std::string& text_field(const json& row, const char* field, const std::string& place) {
  const json* value = data::json_field(row, field);
  if (value == nullptr) throw FormatError(fmt::format("{}: '{}' is missing", place, field));
  if (!value->is_string()) refuse_field(place, field, *value, "a text");
  return value->get_ref<const std::string&>();
}

std::vector<data::ChatMessage> chat_messages(const json& list, const char* field, const std::string& place) {
  if (!list.is_array() || list.empty()) refuse_field(place, field, list, "a list of messages");
  std::vector<data::ChatMessage> messages;
  for (const json& message : list) {
    if (!message.is_object()) refuse_field(place, field, message, "messages with 'role' and 'content'");
    data::ChatMessage own{text_field(message, "role", fmt::format("{}, '{}'", place, field)),
                          content_of(message, place)};
    if (own.role == "developer") own.role = "system";
    own.reasoning = optional_text(message, "reasoning_content", place);
    own.tool_calls = tool_calls(message, place);
    own.tool_call_id = optional_text(message, "tool_call_id", place);
    own.name = optional_text(message, "name", place);
    messages.push_back(std::move(own));
  }
  return messages;
}

std::vector<data::ChatTool> chat_tools(const json& row, const std::string& place) {
  std::vector<data::ChatTool> tools;
  const json* list = data::json_field(row, "tools");
  if (list == nullptr) return tools;
  if (!list->is_array()) refuse_field(place, "tools", *list, "a list");
  for (const json& tool : *list) {
    if (!tool.is_object()) refuse_field(place, "tools", tool, "objects");
    const json& function = function_of(tool);
    tools.push_back({text_field(function, "name", place + ", tools"), optional_text(function, "description", place),
                     object_text(function, "parameters", place)});
  }
  return tools;
}

}  // namespace etna::training
