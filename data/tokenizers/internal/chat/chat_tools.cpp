// Tools in the prompts of formats known by name, as their models were trained. The English sentences are part of the
// formats: Qwen 2.5 (chatml), Llama 3.1, Mistral v3 and v7.
#include <etna/data/tokenizers/internal/chat/chat_tools.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/chat/chat_parts.h>
#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

using nlohmann::ordered_json;

void write_spaced(const ordered_json& value, int indent, int level, std::string& text) {
  const auto line = [&](int depth) {
    if (indent >= 0) text += "\n" + std::string(static_cast<std::size_t>(indent * depth), ' ');
  };
  if (!value.is_structured() || value.empty()) {
    text += value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    return;
  }
  text += value.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) text += indent >= 0 ? "," : ", ";
    first = false;
    line(level + 1);
    if (value.is_object())
      text += ordered_json(item.key()).dump(-1, ' ', false, ordered_json::error_handler_t::replace) + ": ";
    write_spaced(item.value(), indent, level + 1, text);
  }
  line(level);
  text += value.is_object() ? '}' : ']';
}

std::string_view trimmed_content(std::string_view text) {
  const char* const spaces = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(spaces);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

/// The conversation of one format while its parts are written.
struct ToolChat {
  std::string_view format;
  std::span<const ChatMessage> messages;
  const ChatOptions& options;
  ChatParts parts = {};

  ordered_json tools() const { return tools_json(format, options.tools); }
  ordered_json call(const ToolCall& call, const char* arguments) const {
    return {{"name", call.name}, {arguments, arguments_json(format, call)}};
  }
  bool begins_with_system() const { return !messages.empty() && messages[0].role == "system"; }
};

std::vector<TextPart> format_hermes(ToolChat chat) {
  ChatParts& parts = chat.parts;
  if (!chat.options.tools.empty()) {
    parts.markup("<|im_start|>system\n");
    parts.content(chat.begins_with_system() ? chat.messages[0].content : "You are a helpful assistant.");
    parts.content(
        "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with "
        "function signatures within <tools></tools> XML tags:\n<tools>");
    for (const ordered_json& tool : chat.tools()) parts.content("\n" + spaced_json(tool));
    parts.content(
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
        "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
        "<args-json-object>}\n</tool_call>");
    parts.markup("<|im_end|>\n");
  }
  const std::span<const ChatMessage> messages =
      chat.messages.subspan(!chat.options.tools.empty() && chat.begins_with_system() ? 1 : 0);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const bool result = message.role == "tool";
    // Results in a row share one turn.
    if (!result || i == 0 || messages[i - 1].role != "tool")
      parts.markup(fmt::format("<|im_start|>{}", result ? "user" : message.role));
    if (result) {
      parts.markup("\n<tool_response>\n");
      parts.content(message.content);
      parts.markup("\n</tool_response>");
      if (i + 1 < messages.size() && messages[i + 1].role == "tool") continue;
    } else if (!message.content.empty() || message.tool_calls.empty()) {
      parts.markup("\n");
      parts.content(message.content);
    }
    for (const ToolCall& call : message.tool_calls) {
      parts.markup("\n<tool_call>\n");
      parts.content(spaced_json(chat.call(call, "arguments")));
      parts.markup("\n</tool_call>");
    }
    parts.markup("<|im_end|>\n");
  }
  if (chat.options.add_generation_prompt) parts.markup("<|im_start|>assistant\n");
  return parts.take();
}

std::vector<TextPart> format_llama3(ToolChat chat) {
  ChatParts& parts = chat.parts;
  const auto begin = [&](std::string_view role) {
    parts.markup(fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n", role));
  };
  const bool tools = !chat.options.tools.empty();
  begin("system");
  if (tools) parts.content("Environment: ipython\n");
  parts.content("Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n");
  if (chat.begins_with_system()) parts.content(trimmed_content(chat.messages[0].content));
  parts.markup("<|eot_id|>");
  bool listed = !tools;
  for (const ChatMessage& message : chat.messages.subspan(chat.begins_with_system() ? 1 : 0)) {
    if (!listed && message.role != "user")
      throw FormatError(
          "chat format llama3: the list of tools goes into the first message after the system message, "
          "which must be the user's; got one of " +
          message.role);
    if (message.tool_calls.size() > 1)
      throw FormatError(
          fmt::format("chat format llama3: an answer has one tool call at most; got {}", message.tool_calls.size()));
    begin(message.role == "tool" ? "ipython" : message.role);
    if (!listed) {
      parts.content(
          "Given the following functions, please respond with a JSON for a function call with its proper arguments "
          "that best answers the given prompt.\n\nRespond in the format {\"name\": function name, \"parameters\": "
          "dictionary of argument name and its value}.Do not use variables.\n\n");
      for (const ordered_json& tool : chat.tools()) parts.content(spaced_json(tool, 4) + "\n\n");
      listed = true;
    }
    if (!message.tool_calls.empty())
      parts.content(spaced_json(chat.call(message.tool_calls[0], "parameters")));
    else if (message.role == "tool")
      parts.content(spaced_json(message.content));
    else
      parts.content(trimmed_content(message.content));
    parts.markup("<|eot_id|>");
  }
  if (!listed)
    throw FormatError("chat format llama3: tools need a message of the user, which their list precedes; got none");
  if (chat.options.add_generation_prompt) begin("assistant");
  return parts.take();
}

/// @param space after the opening tags: " " unless the vocabulary is Tekken @param v7 has system and result tags
std::vector<TextPart> format_mistral(ToolChat chat, const std::string& space, bool v7) {
  ChatParts& parts = chat.parts;
  std::size_t last_user = chat.messages.size();
  for (std::size_t i = 0; i < chat.messages.size(); ++i)
    if (chat.messages[i].role == "user") last_user = i;
  if (last_user == chat.messages.size() && !chat.options.tools.empty())
    throw FormatError(fmt::format(
        "chat format {}: tools need a message of the user, which their list precedes; got none", chat.format));
  const std::string end = chat.options.eos.empty() ? "</s>" : chat.options.eos;
  std::string system;
  for (std::size_t i = 0; i < chat.messages.size(); ++i) {
    const ChatMessage& message = chat.messages[i];
    if (message.role == "system" && v7) {
      parts.markup("[SYSTEM_PROMPT]" + space);
      parts.content(message.content);
      parts.markup("[/SYSTEM_PROMPT]");
    } else if (message.role == "system") {
      system += message.content + "\n\n";
    } else if (message.role == "user") {
      if (i == last_user && !chat.options.tools.empty()) {
        parts.markup("[AVAILABLE_TOOLS]" + space);
        parts.content(spaced_json(chat.tools()));
        parts.markup("[/AVAILABLE_TOOLS]");
      }
      parts.markup("[INST]" + space);
      if (i == last_user) parts.content(system);  // v3 gives the system message with the last question
      parts.content(message.content);
      parts.markup("[/INST]");
    } else if (message.role == "tool" && v7) {
      parts.markup("[TOOL_RESULTS]" + space);
      parts.content(message.tool_call_id);
      parts.markup("[TOOL_CONTENT]" + space);
      parts.content(message.content);
      parts.markup("[/TOOL_RESULTS]");
    } else if (message.role == "tool") {
      parts.markup("[TOOL_RESULTS]" + space);
      parts.content(spaced_json({{"content", message.content}, {"call_id", message.tool_call_id}}));
      parts.markup("[/TOOL_RESULTS]");
    } else if (message.role == "assistant") {
      if (!message.content.empty()) parts.markup(space);
      parts.content(message.content);
      ordered_json calls = ordered_json::array();
      for (const ToolCall& call : message.tool_calls) {
        calls.push_back(chat.call(call, "arguments"));
        calls.back()["id"] = call.id;
      }
      if (!calls.empty()) {
        parts.markup("[TOOL_CALLS]" + space);
        parts.content(spaced_json(calls));
      }
      parts.markup(end);
    } else {
      throw FormatError(fmt::format("chat format {}: unsupported role '{}'; use system, user, assistant or tool",
                                    chat.format, message.role));
    }
  }
  return parts.take();
}

struct ToolFormat {
  std::string_view name;
  std::vector<TextPart> (*write)(ToolChat chat);
};
constexpr ToolFormat kToolFormats[] = {
    {"chatml", format_hermes},
    {"llama3", format_llama3},
    {"mistral-v3", [](ToolChat chat) { return format_mistral(std::move(chat), " ", false); }},
    {"mistral-v3-tekken", [](ToolChat chat) { return format_mistral(std::move(chat), "", false); }},
    {"mistral-v7", [](ToolChat chat) { return format_mistral(std::move(chat), " ", true); }},
    {"mistral-v7-tekken", [](ToolChat chat) { return format_mistral(std::move(chat), "", true); }},
};

}  // namespace

bool uses_tools(std::span<const ChatMessage> messages, const ChatOptions& options) {
  return !options.tools.empty() || std::any_of(messages.begin(), messages.end(), [](const ChatMessage& message) {
    return message.role == "tool" || !message.tool_calls.empty();
  });
}

ordered_json ordered_object(std::string_view text, const std::string& what) {
  if (json_too_deep(text)) throw FormatError(what + ": JSON nested more than 100 deep");
  ordered_json value = ordered_json::parse(text, nullptr, false);
  if (!value.is_object())
    throw FormatError(
        fmt::format("{}: {}", what, value.is_discarded() ? "invalid or cut off JSON" : "wanted a JSON object"));
  return value;
}

ordered_json tools_json(std::string_view format, std::span<const ChatTool> tools) {
  ordered_json list = ordered_json::array();
  for (const ChatTool& tool : tools) {
    check_tool_name(format, tool.name);
    ordered_json function = {{"name", tool.name}};
    if (!tool.description.empty()) function["description"] = tool.description;
    if (!tool.parameters.empty())
      function["parameters"] =
          ordered_object(tool.parameters, fmt::format("chat format {}: parameters of tool {}", format, tool.name));
    list.push_back({{"type", "function"}, {"function", function}});
  }
  return list;
}

ordered_json arguments_json(std::string_view format, const ToolCall& call) {
  check_tool_name(format, call.name);
  return ordered_object(call.arguments, fmt::format("chat format {}: arguments of a call of {}", format, call.name));
}

std::string spaced_json(const ordered_json& value, int indent) {
  std::string text;
  write_spaced(value, indent, 0, text);
  return text;
}

std::optional<std::vector<TextPart>> format_tool_chat(std::string_view format, std::span<const ChatMessage> messages,
                                                      const ChatOptions& options) {
  for (const ChatMessage& message : messages) check_chat_role(format, message.role);
  for (const ToolFormat& known : kToolFormats)
    if (known.name == format) return known.write({format, messages, options});
  const std::vector<std::string_view> known = chat_formats();
  if (std::find(known.begin(), known.end(), format) == known.end()) return std::nullopt;
  throw FormatError(fmt::format(
      "chat format {}: it has no published form for tools, their calls and the role 'tool'; formats that do: chatml, "
      "llama3, mistral-v3, mistral-v3-tekken, mistral-v7, mistral-v7-tekken",
      format));
}

}  // namespace etna::data
