#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>

namespace etna::data {

/// A call of a tool (function) by the assistant.
struct ToolCall {
  std::string id;
  std::string name;       ///< 1 to 64 letters, digits, '_', '-' or '.'
  std::string arguments;  ///< a JSON object
};

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant" or "tool"; some formats take others
  std::string content;
  std::string reasoning = {};                ///< assistant: what it thought before its answer; empty: nothing
  std::vector<ToolCall> tool_calls = {};     ///< assistant
  std::string tool_call_id = {}, name = {};  ///< tool: the call that this message answers, and the tool's name
};

/// A tool (function) that the model may call.
struct ChatTool {
  std::string name;              ///< 1 to 64 letters, digits, '_', '-' or '.'
  std::string description = {};  ///< empty: none
  std::string parameters = {};   ///< JSON schema of the arguments, an object; empty: none
};

struct ChatOptions {
  bool add_generation_prompt = true;  ///< end with the header of the assistant's answer
  std::string eos = {};               ///< the model's spelling of its EOS token, for "zephyr"; empty: "<|endoftext|>"
  std::vector<ChatTool> tools = {};   ///< tools that the model may call
  /// Variables of the model's own template, a JSON object such as {"enable_thinking": false}; empty: none. Formats that
  /// are known by name have none.
  std::string variables = {};
};

/// The names of all supported formats, such as "chatml" and "llama3".
std::vector<std::string_view> chat_formats();

/// Recognizes a model's chat format by marker strings in its Jinja template. Returns nullopt for an unknown template;
/// jinja_template.h may be able to run it.
std::optional<std::string_view> recognize_chat_format(std::string_view jinja);

/// Formats a conversation the way models of this format were trained, without the BOS token. Special tokens are
/// recognized in the parts with markup but not in the parts with message content, so that no message can inject markup.
/// Tools, their calls and results have a published form in chatml (as Hermes and Qwen 2.5 were trained), llama3 (as
/// Llama 3.1 was) and mistral-v3, -v3-tekken, -v7 and -v7-tekken. Reasoning of earlier answers is left out, as the
/// templates of reasoning models do.
/// @throws FormatError for an unknown format, for a role, tools or variables that the format lacks, and for names,
/// arguments or schemas of tools that are invalid
std::vector<TextPart> format_chat(std::string_view format, std::span<const ChatMessage> messages,
                                  const ChatOptions& options = {});
/// Checks that a role cannot inject markup: it is inserted into the markup unescaped.
/// @param format for errors @throws FormatError unless the role is 1 to 32 letters, digits, '_' or '-'
void check_chat_role(std::string_view format, const std::string& role);
/// @param format for errors @throws FormatError unless the name is 1 to 64 letters, digits, '_', '-' or '.'
void check_tool_name(std::string_view format, const std::string& name);
/// All parts as one text, for display.
std::string chat_text(std::span<const TextPart> parts);

}  // namespace etna::data
