#include <fmt/format.h>

#include <etna/serve/api_error.h>
#include <etna/serve/chat.h>
#include <etna/serve/collect.h>
#include <etna/serve/endpoints.h>
#include <etna/serve/internal/images.h>
#include <etna/serve/messages_fields.h>

// POST /v1/messages and /v1/messages/count_tokens: Anthropic's API.
namespace etna::serve {
namespace {

const char* anthropic_stop(FinishReason reason, const std::string& stop_text) {
  switch (reason) {
    case FinishReason::length:
      return "max_tokens";
    case FinishReason::tool_calls:
      return "tool_use";
    case FinishReason::stop:
    case FinishReason::failed:
      break;
  }
  return stop_text.empty() ? "end_turn" : "stop_sequence";
}

Json anthropic_usage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens}};
}

Json empty_message(const std::string& model) {
  return {{"id", new_id("msg_")},     {"type", "message"},      {"role", "assistant"},     {"model", model},
          {"content", Json::array()}, {"stop_reason", nullptr}, {"stop_sequence", nullptr}};
}

Json stop_sequence(const std::string& text) { return text.empty() ? Json() : Json(text); }

/// The arguments of a call as an object; those that a length cut off are in no object.
Json input_of(const std::string& arguments) {
  Json input = Json::parse(arguments.empty() ? "{}" : arguments, nullptr, false);
  if (input.is_object()) return input;
  return {{"invalid_json", arguments}};
}

std::string whole_message(const CollectedChoice& choice, const std::string& model) {
  Json message = empty_message(model);
  Json& content = message["content"];
  if (!choice.reasoning.empty())
    content.push_back({{"type", "thinking"}, {"thinking", choice.reasoning}, {"signature", ""}});
  if (!choice.text.empty()) content.push_back({{"type", "text"}, {"text", choice.text}});
  for (const ToolCall& call : choice.tool_calls)
    content.push_back(
        {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", input_of(call.arguments)}});
  message["stop_reason"] = anthropic_stop(choice.finish, choice.stop_text);
  message["stop_sequence"] = stop_sequence(choice.stop_text);
  message["usage"] = anthropic_usage(choice.usage);
  return json_text(message);
}

/// The events of a streamed message: content comes in blocks, one after the other.
class MessageEvents {
 public:
  MessageEvents(SentEvents& sent, const std::string& model) : sent_(sent), model_(model) {}

  void write() {
    Json message = empty_message(model_);
    message["usage"] = anthropic_usage({});
    send({{"type", "message_start"}, {"message", std::move(message)}});
    send({{"type", "ping"}});
    while (const std::optional<AnswerEvent> event = sent_.next())
      if (!take(*event)) return;
  }

 private:
  void send(const Json& data) { sent_.send(json_text(data), data.at("type").get_ref<const std::string&>()); }
  void open(EventKind kind, Json block) {
    close();
    open_ = kind;
    send({{"type", "content_block_start"}, {"index", index_}, {"content_block", std::move(block)}});
  }
  void close() {
    if (!open_) return;
    send({{"type", "content_block_stop"}, {"index", index_++}});
    open_.reset();
  }
  void delta(Json change) { send({{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(change)}}); }

  bool take(const AnswerEvent& event) {
    switch (event.kind) {
      case EventKind::text:
        if (open_ != EventKind::text) open(event.kind, {{"type", "text"}, {"text", ""}});
        delta({{"type", "text_delta"}, {"text", event.text}});
        break;
      case EventKind::reasoning:
        if (open_ != EventKind::reasoning)
          open(event.kind, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
        delta({{"type", "thinking_delta"}, {"thinking", event.text}});
        break;
      case EventKind::tool_call_begins:
        open(event.kind,
             {{"type", "tool_use"}, {"id", event.tool_id}, {"name", event.tool_name}, {"input", Json::object()}});
        break;
      case EventKind::tool_call_arguments:
        delta({{"type", "input_json_delta"}, {"partial_json", event.text}});
        break;
      case EventKind::tool_call_ends:
        close();
        break;
      case EventKind::finish:
        return finish(event);
    }
    return true;
  }
  bool finish(const AnswerEvent& event) {
    if (event.finish == FinishReason::failed) {
      const ApiError error{event.error.status, "", event.error.message};
      sent_.send(anthropic_error_body(error), "error");
      return false;
    }
    close();
    send({{"type", "message_delta"},
          {"delta",
           {{"stop_reason", anthropic_stop(event.finish, event.stop_text)},
            {"stop_sequence", stop_sequence(event.stop_text)}}},
          {"usage", anthropic_usage(event.usage)}});
    send({{"type", "message_stop"}});
    return true;
  }

  SentEvents& sent_;
  const std::string& model_;
  std::optional<EventKind> open_;
  std::int64_t index_ = 0;
};

}  // namespace

HttpReply answer_messages(Service& service, const HttpRequest& http) {
  const Json body = parse_json(http.body);
  Fields fields(body, "");
  ChatRequest request = read_anthropic_chat(fields);
  read_anthropic_options(fields, service, request);
  const bool stream = fields.flag_if("stream").value_or(false);
  fields.finish();
  const std::string model = service.model(service.model_index(request.model)).name;
  std::shared_ptr<EventSource> source = ask(service, request, http);
  if (!stream) return {.body = whole_message(collect(*source, 1, http)[0], model)};
  source = with_first(first_event(*source, http), source);
  return {.type = "text/event-stream", .pieces = [=, &service](const PieceWriter& write) {
            SentEvents sent(source, http, write, service.options().comment_seconds);
            MessageEvents(sent, model).write();
          }};
}

HttpReply answer_count_tokens(Service& service, const HttpRequest& http) {
  const Json body = parse_json(http.body);
  Fields fields(body, "");
  const ChatRequest request = read_anthropic_chat(fields);
  fields.finish();
  const std::size_t model = service.model_index(request.model);
  const ServedModel& served = service.model(model);
  const std::vector<SeenImage> images = find_images(served, request.images);
  const ImagePrompt prompt =
      image_prompt(served, service.tokenizer(model), chat_prompt(service, model, request), request.images, images);
  return {.body = json_text({{"input_tokens", prompt.tokens.size()}})};
}

}  // namespace etna::serve
