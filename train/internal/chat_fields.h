#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <etna/data/tokenizers/chat_template.h>

/// Conversations in JSON, as OpenAI's interface writes them. Internal.
namespace etna::training {

/// A field of a row that is a text. @param place of the row, before errors: "rows.jsonl, line 3"
/// @throws FormatError where it is missing or no text
const std::string& text_field(const nlohmann::json& row, const char* field, const std::string& place);

/// @param list [{"role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name"}] @param field for errors
/// @throws FormatError naming place and field
std::vector<data::ChatMessage> chat_messages(const nlohmann::json& list, const char* field, const std::string& place);

/// The field "tools" of a row: [{"type": "function", "function": {"name", "description", "parameters"}}]; none where it
/// is missing. @throws FormatError as chat_messages()
std::vector<data::ChatTool> chat_tools(const nlohmann::json& row, const std::string& place);

}  // namespace etna::training
