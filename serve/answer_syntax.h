#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/serve/chat_request.h>

/// How a model marks the parts of its answers: reasoning and calls of tools.
namespace etna::serve {

enum class CallForm : std::uint8_t {
  none,      ///< the model knows no calls
  tagged,    ///< Hermes, Qwen: <tool_call>{"name", "arguments"}</tool_call>; Qwen3-Coder: <function=name> in it
  llama,     ///< {"name", "parameters"} as the whole answer, or after <|python_tag|>
  mistral,   ///< [TOOL_CALLS][{"name", "arguments"}], or [TOOL_CALLS]name[ARGS]{...}
  deepseek,  ///< <｜tool▁calls▁begin｜> and so on, with or without a fence around the arguments
  granite,   ///< Granite, Phi-4: <|tool_call|>[{"name", "arguments"}]
  command,   ///< Command R: <|START_ACTION|>[{"tool_name", "parameters"}]<|END_ACTION|>
  channels,  ///< gpt-oss: <|channel|>commentary to=functions.name <|constrain|>json<|message|>{...}<|call|>
  glm,       ///< GLM-4.5: <tool_call>name, <arg_key>key</arg_key>, <arg_value>value</arg_value> …, </tool_call>
};

struct AnswerSyntax {
  std::string think_open, think_close;  ///< around reasoning; empty: the model has none
  CallForm calls = CallForm::none;
  bool xml = false;  ///< tagged: the model was trained on <function=name>
};

/// The syntax of a model's answers by marker strings in its Jinja template, or by the name of a chat format.
AnswerSyntax recognize_answer_syntax(std::string_view chat_template);

/// The strings that a reader of this syntax looks for. Where one of them is a special token, tokens must be spelled.
std::vector<std::string> answer_markers(const AnswerSyntax& syntax);

/// Whether a prompt ends within reasoning, because the template opened it.
bool opens_reasoning(const AnswerSyntax& syntax, std::string_view prompt);

/// What closes reasoning that takes too long, and begins the answer. @param tools whether the answer may call some
std::string reasoning_end(const AnswerSyntax& syntax, bool tools);

/// How an answer is made to be a call of a tool: the beginning of the call is put behind the prompt, and a JSON schema,
/// or texts, describe the rest, so that the call always parses, and its arguments validate.
struct ForcedCall {
  std::string begin;                            ///< written for the model; a reader must get it before the answer
  std::string schema;                           ///< of all that follows in the answer
  std::vector<models::GrammarText> texts = {};  ///< instead of a schema: one of them follows
};
/// @param name of the tool; empty: any of them
/// @param thinking whether the prompt ends within reasoning, which is closed then
/// @throws ApiError 400 where the syntax has no calls, and for parameters that its form cannot promise
ForcedCall force_call(const AnswerSyntax& syntax, std::span<const Tool> tools, const std::string& name, bool thinking);

}  // namespace etna::serve
