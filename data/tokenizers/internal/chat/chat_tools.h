#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/data/tokenizers/tokenizer.h>

/// Tools in prompts: definitions, calls and results. Internal.
namespace etna::data {

/// Whether a conversation has tools, calls or results.
bool uses_tools(std::span<const ChatMessage> messages, const ChatOptions& options);

/// {"type": "function", "function": {"name", "description", "parameters"}} of each tool, in this order of fields.
/// @param format for errors @throws FormatError for an invalid name or schema
nlohmann::ordered_json tools_json(std::string_view format, std::span<const ChatTool> tools);
/// The arguments of a call. @param format for errors @throws FormatError unless they are a JSON object
nlohmann::ordered_json arguments_json(std::string_view format, const ToolCall& call);
/// Parses a JSON object and keeps the order of its fields.
/// @param what for errors @throws FormatError for other text, and for nesting more than 100 deep
nlohmann::ordered_json ordered_object(std::string_view text, const std::string& what);

/// JSON with a space after ',' and ':', as the tojson filter of Hugging Face's templates writes it.
/// @param indent spaces per level; negative: one line
std::string spaced_json(const nlohmann::ordered_json& value, int indent = -1);

/// format_chat() of a conversation with tools; nullopt for an unknown format.
/// @throws FormatError as format_chat() does
std::optional<std::vector<TextPart>> format_tool_chat(std::string_view format, std::span<const ChatMessage> messages,
                                                      const ChatOptions& options);

}  // namespace etna::data
