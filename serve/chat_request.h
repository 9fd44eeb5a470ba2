#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <etna/models/grammar/grammar.h>
#include <etna/models/sampling.h>

/// What the requests of all chat APIs become. An API's source translates its JSON into these types and refuses every
/// field that they cannot express.
namespace etna::serve {

/// A call of a tool. `arguments` is a JSON text: the model may have written an invalid one.
struct ToolCall {
  std::string id, name, arguments;
};

/// The images of a conversation. In the place of each, the content of a message has a text that nobody can guess, so
/// that users cannot write it.
struct ChatImages {
  std::string mark = {};                ///< with which these texts begin
  std::vector<std::string> files = {};  ///< PNG or JPEG
  std::vector<std::string> paths = {};  ///< of the field that has it, for errors

  std::string text(std::size_t image) const { return mark + '-' + std::to_string(image) + ';'; }
};

struct Message {
  std::string role;                          ///< "system", "developer", "user", "assistant" or "tool"
  std::string content;                       ///< of several parts of text: joined; with ChatImages::text()
  std::string reasoning = {};                ///< of an assistant's message
  std::vector<ToolCall> tool_calls = {};     ///< of an assistant's message
  std::string tool_call_id = {}, name = {};  ///< of a tool's message: the call that it answers, and the tool
};

struct Tool {
  std::string name, description;
  std::string parameters;  ///< a JSON Schema as text; empty: none
  bool strict = false;     ///< arguments must follow the schema
};

enum class ToolChoice : std::uint8_t {
  automatic,
  none,
  required,  ///< at least one call, of any tool
  named,     ///< a call of ChatRequest::tool_name
};

/// The form that the text of an answer must have.
enum class OutputForm : std::uint8_t {
  text,
  json_object,
  json_schema,
  regex,
  gbnf,
  parts,   ///< one of `texts`
  marked,  ///< any text with calls, as `marked` says
};

struct OutputFormat {
  OutputForm form = OutputForm::text;
  std::string source = {};  ///< the schema, regular expression or grammar
  std::string name = {};    ///< of a schema
  std::vector<models::GrammarText> texts = {};
  models::MarkedText marked = {};
};

/// How answers are written: the same for chats and for completions.
struct AnswerOptions {
  models::SamplingOptions sampling = {
      .temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};  ///< OpenAI's defaults; its seed is `seed`
  std::optional<std::uint64_t> seed = {};                     ///< nullopt: another one for each request
  std::optional<std::int64_t> max_tokens = {};                ///< nullopt: as many as the context has room for
  std::vector<std::string> stop = {};                         ///< texts that end the answer and are not part of it
  std::int64_t choices = 1;
  bool logprobs = false;
  std::int64_t top_logprobs = 0;  ///< alternatives for each token
  bool ignore_eos = false;        ///< go on after tokens that would end the text
  std::int64_t priority = 0;      ///< lower runs first among the waiting requests of one client
  OutputFormat format = {};
};

struct ChatRequest {
  std::string model;  ///< a name that /v1/models lists
  std::vector<Message> messages;
  ChatImages images = {};
  std::vector<Tool> tools = {};
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string tool_name = {};
  bool parallel_tool_calls = true;
  /// "none", "minimal", "low", "medium", "high"; empty: the template's default. A template that knows no effort gets
  /// enable_thinking = false for "none".
  std::string reasoning_effort = {};
  /// Whether the model may reason; unset: the template's default. Without a switch in the template nothing changes.
  std::optional<bool> thinking = {};
  /// Variables of the model's own template, a JSON object as text; empty: none.
  std::string template_variables = {};
  /// Tokens of reasoning, after which it is closed; needs one choice.
  std::optional<std::int64_t> reasoning_tokens = {};
  AnswerOptions options = {};
};

}  // namespace etna::serve
