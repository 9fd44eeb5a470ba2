#pragma once

#include <set>
#include <string>

#include <etna/serve/answer_fields.h>
#include <etna/serve/chat_request.h>
#include <etna/serve/fields.h>

namespace etna::serve {

/// Reads `messages` of OpenAI's chat API. @throws ApiError 400
void read_messages(Fields& fields, ChatRequest& request);
/// Reads `tools`, `tool_choice` and `parallel_tool_calls`. @throws ApiError 400
void read_tools(Fields& fields, ChatRequest& request);
/// The fields of a function that may be called: `name`, `description`, `parameters` and `strict`.
/// @param names of those before it, to which its own is added @throws ApiError 400 also for a name among them
Tool read_function(Fields& function, std::set<std::string>& names);
/// `tool_choice` as a word, after the tools. @throws ApiError 400
void read_choice_word(Fields& fields, ChatRequest& request);
/// A choice of one tool by its `name`. @throws ApiError 400
void read_named_choice(Fields& function, const std::set<std::string>& names, ChatRequest& request);
/// Names of tools become parts of prompts and grammars. @throws ApiError 400
void check_tool_name(const std::string& name, const std::string& path);
/// All of a chat request but for how it is sent back.
ChatRequest read_chat_request(Fields& fields, const Service& service);

}  // namespace etna::serve
