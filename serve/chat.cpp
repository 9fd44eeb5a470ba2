#include <etna/serve/chat.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/chat/jinja_template.h>
#include <etna/data/tokenizers/internal/chat/message_marks.h>
#include <etna/serve/answer_fields.h>
#include <etna/serve/answer_syntax.h>
#include <etna/serve/api_error.h>
#include <etna/serve/internal/call_texts.h>
#include <etna/serve/internal/images.h>
#include <etna/serve/json_text.h>
#include <etna/serve/read_answers.h>

namespace etna::serve {
namespace {

bool has_tools(const ChatRequest& request) { return !request.tools.empty() && request.tool_choice != ToolChoice::none; }

/// Whether the model may call a tool whose arguments must then validate.
bool strict_by_choice(const ChatRequest& request) {
  return request.tool_choice == ToolChoice::automatic &&
         std::any_of(request.tools.begin(), request.tools.end(), [](const Tool& tool) { return tool.strict; });
}

/// The text that says how a model's conversations look: its template, or the name of a format.
std::string template_of(const Service& service, std::size_t model) {
  const std::string& format = service.options().chat_format;
  return format.empty() || format == "jinja" ? std::string(service.tokenizer(model).chat_template()) : format;
}

/// The variables of the template: those of the request, and what its effort sets.
std::string variables_of(const ChatRequest& request, const std::string& source) {
  Json variables = request.template_variables.empty() ? Json::object() : Json::parse(request.template_variables);
  const auto knows = [&](const char* name) { return source.find(name) != std::string::npos; };
  for (const auto& item : variables.items()) {
    if (knows(item.key().c_str())) continue;
    throw bad_request("chat_template_kwargs." + item.key(),
                      fmt::format("this model's chat template has no variable '{:.64}'", item.key()),
                      "unsupported_value");
  }
  const std::string& effort = request.reasoning_effort;
  if (!effort.empty()) {
    if (knows("reasoning_effort")) {
      variables["reasoning_effort"] = effort;
    } else if (knows("enable_thinking")) {
      variables["enable_thinking"] = effort != "none";
    } else {
      throw bad_request("reasoning_effort", "this model's chat template has no effort to set; leave the field out",
                        "unsupported_value");
    }
  }
  if (request.thinking && knows("enable_thinking") && !variables.contains("enable_thinking"))
    variables["enable_thinking"] = *request.thinking;
  return variables.empty() ? "" : json_text(variables);
}

/// The name of the tool that a result answers, for templates that ask for it.
std::string tool_of(const std::vector<Message>& messages, std::size_t result) {
  for (std::size_t i = result; i-- > 0;)
    for (const ToolCall& call : messages[i].tool_calls)
      if (call.id == messages[result].tool_call_id) return call.name;
  return messages[result].name;
}

void require_consistent(const ChatRequest& request, const AnswerSyntax& syntax) {
  const bool forced = request.tool_choice == ToolChoice::required || request.tool_choice == ToolChoice::named;
  if (has_tools(request) && syntax.calls == CallForm::none)
    throw bad_request("tools",
                      "this model's chat template is not known to take tools; send none, or tool_choice 'none'",
                      "unsupported_value");
  if (strict_by_choice(request)) {
    if (request.options.format.form != OutputForm::text)
      throw bad_request("tools",
                        "a tool is strict, but response_format says which form the answer has; send one of both");
    call_texts(syntax, request.tools, StrictTools::marked);  // refuses parameters that cannot be promised
  }
  if (forced && request.options.format.form != OutputForm::text)
    throw bad_request("tool_choice", "tool_choice requires a call, but response_format says which form the answer has");
  if (!request.reasoning_tokens) return;
  if (syntax.think_close.empty())
    throw bad_request("reasoning_budget", "this model's chat template has no reasoning to limit", "unsupported_value");
  if (request.options.choices != 1)
    throw bad_request("reasoning_budget",
                      fmt::format("a budget of reasoning needs one choice; got n = {}", request.options.choices));
}

/// Whether tokens must be spelled that otherwise have no text, because an answer is read by them.
bool needs_special(const data::Tokenizer& tokenizer, const AnswerSyntax& syntax) {
  const std::vector<std::string> markers = answer_markers(syntax);
  const std::vector<std::int32_t> special = tokenizer.special_tokens();
  return std::any_of(special.begin(), special.end(), [&](std::int32_t id) {
    const std::string_view text = data::special_spelling(tokenizer, id);
    return std::find(markers.begin(), markers.end(), text) != markers.end();
  });
}

std::shared_ptr<EventSource> ask_for_text(Service& service, std::size_t model, const AnswerOptions& options,
                                          ImagePrompt prompt, bool show_special, const HttpRequest& http) {
  std::vector<std::int32_t>& tokens = prompt.tokens;
  if (tokens.empty()) tokens.push_back(service.tokenizer(model).bos().value_or(0));
  const std::uint64_t seed = options.seed.value_or(new_seed());
  Job job{model, {}, http.client, options.priority, http.receipt};
  for (std::int64_t i = 0; i < options.choices; ++i) {
    job.sequences.push_back({tokens, generation_options(options, service, model, std::ssize(tokens), i, seed),
                             options.stop, show_special, prompt.images});
  }
  return service.engine().submit(std::move(job));
}

}  // namespace

std::vector<data::TextPart> chat_prompt(const Service& service, std::size_t model, const ChatRequest& request) {
  const data::Tokenizer& tokenizer = service.tokenizer(model);
  const std::string source = template_of(service, model);
  if (source.empty()) {
    throw bad_request("messages",
                      fmt::format("the model '{}' has no chat template; use /v1/completions, or start the server with "
                                  "--chat-format",
                                  service.model(model).name),
                      "no_chat_template");
  }
  std::vector<data::ChatMessage> messages;
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    const Message& message = request.messages[i];
    data::ChatMessage& added = messages.emplace_back(
        data::ChatMessage{message.role == "developer" ? "system" : message.role, message.content});
    added.reasoning = message.reasoning;
    for (const ToolCall& call : message.tool_calls) added.tool_calls.push_back({call.id, call.name, call.arguments});
    added.tool_call_id = message.tool_call_id;
    if (message.role == "tool") added.name = tool_of(request.messages, i);
  }
  data::ChatOptions options;
  if (has_tools(request)) {
    require_consistent(request, recognize_answer_syntax(source));
    for (const Tool& tool : request.tools) options.tools.push_back({tool.name, tool.description, tool.parameters});
  }
  options.variables = variables_of(request, source);
  const std::string& format = service.options().chat_format;
  try {
    if (format == "jinja") return data::format_chat_by_template(tokenizer, messages, options);
    return format.empty() ? data::format_model_chat(tokenizer, messages, options)
                          : data::format_chat(format, messages, options);
  } catch (const Error& error) {
    throw bad_request("messages", fmt::format("the model's chat template refuses these messages: {}", error.what()));
  }
}

std::shared_ptr<EventSource> ask(Service& service, const ChatRequest& request, const HttpRequest& http) {
  const std::size_t model = service.model_index(request.model);
  const data::Tokenizer& tokenizer = service.tokenizer(model);
  const std::vector<SeenImage> images = find_images(service.model(model), request.images);
  std::vector<data::TextPart> parts = chat_prompt(service, model, request);
  const AnswerSyntax syntax = recognize_answer_syntax(template_of(service, model));
  require_consistent(request, syntax);
  AnswerOptions options = request.options;
  ReadAnswersOptions reading{.reader = {.syntax = syntax}, .choices = options.choices, .tokenizer = &tokenizer};
  reading.reader.reasoning = opens_reasoning(syntax, data::chat_text(parts));
  reading.parallel_calls = request.parallel_tool_calls;
  if (has_tools(request)) {
    reading.reader.tools = request.tools;
    const bool mistral = syntax.calls == CallForm::mistral;  // its templates take ids of nine letters and digits only
    reading.reader.new_id = [mistral] { return mistral ? new_id("").substr(0, 9) : new_id("call_"); };
  }
  if (request.tool_choice == ToolChoice::required || request.tool_choice == ToolChoice::named) {
    const ForcedCall forced = force_call(syntax, request.tools, request.tool_name, reading.reader.reasoning);
    if (!forced.begin.empty()) parts.push_back({forced.begin, data::SpecialTokens::recognize});
    reading.begin = forced.begin;
    options.format = {OutputForm::json_schema, forced.schema, "tool call"};
    if (!forced.texts.empty()) options.format = {.form = OutputForm::parts, .texts = forced.texts};
  } else if (strict_by_choice(request)) {
    options.format = {.form = OutputForm::marked, .marked = *call_texts(syntax, request.tools, StrictTools::marked)};
    options.format.marked.hidden = reading.reader.reasoning;
  }
  const bool special = needs_special(tokenizer, syntax);
  const auto prompt_of = [&service, &tokenizer, model, images,
                          marks = request.images](const std::vector<data::TextPart>& all) {
    return image_prompt(service.model(model), tokenizer, all, marks, images);
  };
  if (request.reasoning_tokens) {
    reading.reasoning_tokens = request.reasoning_tokens;
    const bool opened = reading.reader.reasoning, tools = has_tools(request);
    reading.resume = [=, &service, client = http.client, receipt = http.receipt](const std::string& reasoning,
                                                                                 std::int64_t tokens) {
      std::vector<data::TextPart> longer = parts;
      if (!opened) longer.push_back({syntax.think_open, data::SpecialTokens::recognize});
      longer.push_back({reasoning, data::SpecialTokens::as_text});
      longer.push_back({reasoning_end(syntax, tools), data::SpecialTokens::recognize});
      AnswerOptions rest = options;
      rest.format.marked.hidden = false;  // the reasoning has ended
      rest.format.marked.hidden_open.clear();
      if (rest.max_tokens) rest.max_tokens = std::max<std::int64_t>(1, *rest.max_tokens - tokens);
      HttpRequest same;
      same.client = client;
      same.receipt = receipt;
      return ask_for_text(service, model, rest, prompt_of(longer), special, same);
    };
  }
  std::shared_ptr<EventSource> source = ask_for_text(service, model, options, prompt_of(parts), special, http);
  return read_answers(std::move(source), std::move(reading));
}

}  // namespace etna::serve
