#include <etna/serve/chat.h>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/chat/jinja_template.h>
#include <etna/serve/answer_fields.h>
#include <etna/serve/api_error.h>

namespace etna::serve {

std::vector<data::TextPart> chat_prompt(const Service& service, std::size_t model, const ChatRequest& request) {
  const data::Tokenizer& tokenizer = service.tokenizer(model);
  std::vector<data::ChatMessage> messages;
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    const Message& message = request.messages[i];
    if (message.role == "tool" || !message.tool_calls.empty()) {
      throw bad_request(fmt::format("messages[{}]", i),
                        "this model's chat template is not known to take calls of tools", "unsupported_value");
    }
    messages.push_back({message.role == "developer" ? "system" : message.role, message.content});
  }
  if (!request.tools.empty() && request.tool_choice != ToolChoice::none)
    throw bad_request("tools", "this model's chat template is not known to take tools", "unsupported_value");
  if (!request.reasoning_effort.empty())
    throw bad_request("reasoning_effort", "this model's chat template has no effort to set; leave the field out",
                      "unsupported_value");
  std::string format = service.options().chat_format;
  if (format.empty()) {
    const auto known = data::recognize_chat_format(tokenizer.chat_template());
    if (known) format = *known;
  }
  try {
    if (!format.empty() && format != "jinja") return data::format_chat(format, messages);
    if (!tokenizer.chat_template().empty()) return data::format_chat_by_template(tokenizer, messages);
  } catch (const Error& error) {
    throw bad_request("messages", fmt::format("the model's chat template refuses these messages: {}", error.what()));
  }
  throw bad_request("messages",
                    fmt::format("the model '{}' has no chat template; use /v1/completions, or start the server with "
                                "--chat-format",
                                service.model(model).name),
                    "no_chat_template");
}

std::shared_ptr<EventSource> ask(Service& service, const ChatRequest& request, const HttpRequest& http) {
  const std::size_t model = service.model_index(request.model);
  std::vector<std::int32_t> prompt = service.tokenizer(model).encode_parts(chat_prompt(service, model, request));
  if (prompt.empty()) prompt.push_back(service.tokenizer(model).bos().value_or(0));
  const AnswerOptions& options = request.options;
  const std::uint64_t seed = options.seed.value_or(new_seed());
  Job job{model, {}, http.client, options.priority};
  for (std::int64_t i = 0; i < options.choices; ++i) {
    job.sequences.push_back(
        {prompt, generation_options(options, service, model, std::ssize(prompt), i, seed), options.stop});
  }
  return service.engine().submit(std::move(job));
}

}  // namespace etna::serve
