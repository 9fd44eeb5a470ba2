#include <ctime>

#include <etna/serve/api_error.h>
#include <etna/serve/chat.h>
#include <etna/serve/collect.h>
#include <etna/serve/endpoints.h>
#include <etna/serve/responses_fields.h>

// POST /v1/responses: OpenAI's responses API, without storage.
namespace etna::serve {
namespace {

Json response_usage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

Json text_part(const std::string& text) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}
Json reasoning_part(const std::string& text) { return {{"type", "reasoning_text"}, {"text", text}}; }

Json message_item(const std::string& id, const char* status, Json content) {
  return {{"id", id}, {"type", "message"}, {"status", status}, {"role", "assistant"}, {"content", std::move(content)}};
}
Json reasoning_item(const std::string& id, const char* status, Json content) {
  return {{"id", id},
          {"type", "reasoning"},
          {"status", status},
          {"summary", Json::array()},
          {"content", std::move(content)}};
}
Json call_item(const std::string& id, const char* status, const ToolCall& call) {
  return {{"id", id},           {"type", "function_call"}, {"status", status},
          {"call_id", call.id}, {"name", call.name},       {"arguments", call.arguments}};
}

/// The response as a whole, while its output grows.
class Response {
 public:
  Response(Json shown, std::string model) {
    json_ = {{"id", new_id("resp_")},
             {"object", "response"},
             {"created_at", std::time(nullptr)},
             {"status", "in_progress"},
             {"background", false},
             {"error", nullptr},
             {"incomplete_details", nullptr},
             {"model", std::move(model)},
             {"output", Json::array()},
             {"previous_response_id", nullptr},
             {"store", false},
             {"truncation", "disabled"},
             {"usage", nullptr}};
    json_.update(shown);
  }

  const Json& json() const { return json_; }
  void add(Json item) { json_["output"].push_back(std::move(item)); }
  std::size_t items() const { return json_["output"].size(); }
  void finish(FinishReason reason, const Usage& usage) {
    json_["status"] = reason == FinishReason::length ? "incomplete" : "completed";
    if (reason == FinishReason::length) json_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    json_["usage"] = response_usage(usage);
  }
  void fail(const AnswerError& error) {
    json_["status"] = "failed";
    json_["error"] = {{"code", error.code.empty() ? "server_error" : error.code}, {"message", error.message}};
  }

 private:
  Json json_;
};

const char* item_status(FinishReason reason) { return reason == FinishReason::length ? "incomplete" : "completed"; }

std::string whole_response(Response response, const CollectedChoice& choice) {
  const bool calls = !choice.tool_calls.empty(), text = !choice.text.empty();
  const char* const last = item_status(choice.finish);
  if (!choice.reasoning.empty())
    response.add(reasoning_item(new_id("rs_"), text || calls ? "completed" : last,
                                Json::array({reasoning_part(choice.reasoning)})));
  if (text || (!calls && choice.reasoning.empty()))
    response.add(message_item(new_id("msg_"), calls ? "completed" : last, Json::array({text_part(choice.text)})));
  for (std::size_t i = 0; i < choice.tool_calls.size(); ++i)
    response.add(call_item(new_id("fc_"), i + 1 < choice.tool_calls.size() ? "completed" : last, choice.tool_calls[i]));
  response.finish(choice.finish, choice.usage);
  return json_text(response.json());
}

/// The events of a streamed response: items come one after the other, each with one part at most.
class ResponseEvents {
 public:
  ResponseEvents(SentEvents& sent, Response response) : sent_(sent), response_(std::move(response)) {}

  void write() {
    send("response.created", {{"response", response_.json()}});
    send("response.in_progress", {{"response", response_.json()}});
    while (const std::optional<AnswerEvent> event = sent_.next()) take(*event);
  }

 private:
  void send(const char* type, Json fields) {
    Json data = {{"type", type}, {"sequence_number", number_++}};
    data.update(fields);
    sent_.send(json_text(data), type);
  }
  /// An event of the open item.
  void send_item(const char* type, Json fields) {
    Json data = {{"item_id", id_}, {"output_index", response_.items()}};
    data.update(fields);
    send(type, std::move(data));
  }
  void send_part(const char* type, Json fields) {
    fields["content_index"] = 0;
    send_item(type, std::move(fields));
  }

  void open(EventKind kind, const char* prefix) {
    close("completed");
    open_ = kind;
    id_ = new_id(prefix);
    text_.clear();
    send("response.output_item.added", {{"output_index", response_.items()}, {"item", item("in_progress", true)}});
    if (kind == EventKind::text) send_part("response.content_part.added", {{"part", text_part("")}});
    if (kind == EventKind::reasoning) send_part("response.content_part.added", {{"part", reasoning_part("")}});
  }
  Json item(const char* status, bool empty = false) {
    if (open_ == EventKind::text)
      return message_item(id_, status, empty ? Json::array() : Json::array({text_part(text_)}));
    if (open_ == EventKind::reasoning)
      return reasoning_item(id_, status, empty ? Json::array() : Json::array({reasoning_part(text_)}));
    return call_item(id_, status, {call_.id, call_.name, text_});
  }
  void close(const char* status) {
    if (!open_) return;
    if (open_ == EventKind::text) {
      send_part("response.output_text.done", {{"text", text_}, {"logprobs", Json::array()}});
      send_part("response.content_part.done", {{"part", text_part(text_)}});
    } else if (open_ == EventKind::reasoning) {
      send_part("response.reasoning_text.done", {{"text", text_}});
      send_part("response.content_part.done", {{"part", reasoning_part(text_)}});
    } else {
      send_item("response.function_call_arguments.done", {{"name", call_.name}, {"arguments", text_}});
    }
    Json done = item(status);
    send("response.output_item.done", {{"output_index", response_.items()}, {"item", done}});
    response_.add(std::move(done));
    open_.reset();
  }

  void take(const AnswerEvent& event) {
    switch (event.kind) {
      case EventKind::text:
        if (open_ != EventKind::text) open(event.kind, "msg_");
        text_ += event.text;
        send_part("response.output_text.delta", {{"delta", event.text}, {"logprobs", Json::array()}});
        break;
      case EventKind::reasoning:
        if (open_ != EventKind::reasoning) open(event.kind, "rs_");
        text_ += event.text;
        send_part("response.reasoning_text.delta", {{"delta", event.text}});
        break;
      case EventKind::tool_call_begins:
        close("completed");
        call_ = {event.tool_id, event.tool_name, ""};
        open(event.kind, "fc_");
        break;
      case EventKind::tool_call_arguments:
        text_ += event.text;
        send_item("response.function_call_arguments.delta", {{"delta", event.text}});
        break;
      case EventKind::tool_call_ends:
        break;  // the item stays open, since only what follows says whether it is complete
      case EventKind::finish:
        finish(event);
        break;
    }
  }
  void finish(const AnswerEvent& event) {
    if (event.finish == FinishReason::failed) {
      response_.fail(event.error);
      send("response.failed", {{"response", response_.json()}});
      return;
    }
    close(item_status(event.finish));
    response_.finish(event.finish, event.usage);
    send(event.finish == FinishReason::length ? "response.incomplete" : "response.completed",
         {{"response", response_.json()}});
  }

  SentEvents& sent_;
  Response response_;
  std::int64_t number_ = 0;
  std::optional<EventKind> open_;
  std::string id_, text_;
  ToolCall call_;
};

}  // namespace

HttpReply answer_responses(Service& service, const HttpRequest& http) {
  const Json body = parse_json(http.body);
  const ResponsesRequest request = read_responses_request(body, service);
  const Response response(request.shown, service.model(service.model_index(request.chat.model)).name);
  std::shared_ptr<EventSource> source = ask(service, request.chat, http);
  if (!request.stream) return {.body = whole_response(response, collect(*source, 1, http)[0])};
  source = with_first(first_event(*source, http), source);
  return {.type = "text/event-stream", .pieces = [=, &service](const PieceWriter& write) {
            SentEvents sent(source, http, write, service.options().comment_seconds);
            ResponseEvents(sent, response).write();
          }};
}

}  // namespace etna::serve
