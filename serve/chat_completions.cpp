#include <ctime>

#include <fmt/format.h>

#include <etna/serve/chat.h>
#include <etna/serve/chat_fields.h>
#include <etna/serve/collect.h>
#include <etna/serve/endpoints.h>
#include <etna/serve/openai_json.h>

// POST /v1/chat/completions
namespace etna::serve {
namespace {

/// What each reply to one request says.
struct ChatReplyHead {
  std::string id = new_id("chatcmpl-");
  std::int64_t created;
  std::string model;

  Json json(const char* object) const {
    return {{"id", id}, {"object", object}, {"created", created}, {"model", model}};
  }
};

Json tool_call_json(const ToolCall& call) {
  return {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

Json choice_json(const CollectedChoice& choice, std::size_t index, bool logprobs) {
  Json message = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
  if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
  if (!choice.tool_calls.empty()) {
    if (choice.text.empty()) message["content"] = nullptr;
    for (const ToolCall& call : choice.tool_calls) message["tool_calls"].push_back(tool_call_json(call));
  }
  return {{"index", index},
          {"message", std::move(message)},
          {"logprobs", logprobs ? chat_logprobs_json(choice.logprobs) : Json()},
          {"finish_reason", openai_name(choice.finish)}};
}

/// The change that an event makes to the message; null for one that the client does not see.
Json delta_of(const AnswerEvent& event) {
  switch (event.kind) {
    case EventKind::text:
      return {{"content", event.text}};
    case EventKind::reasoning:
      return {{"reasoning_content", event.text}};
    case EventKind::tool_call_begins: {
      Json call = tool_call_json({event.tool_id, event.tool_name, event.text});
      call["index"] = event.tool_call;
      return {{"tool_calls", Json::array({std::move(call)})}};
    }
    case EventKind::tool_call_arguments:
      return {{"tool_calls", Json::array({{{"index", event.tool_call}, {"function", {{"arguments", event.text}}}}})}};
    case EventKind::finish:
      return Json::object();
    case EventKind::tool_call_ends:
      break;
  }
  return nullptr;
}

void stream_chat(SentEvents& sent, const ChatReplyHead& head, const AnswerOptions& options, bool include_usage) {
  Json chunk = head.json("chat.completion.chunk");
  const auto send = [&](std::int64_t index, Json delta, Json logprobs, Json finish) {
    chunk["choices"] = Json::array({{{"index", index},
                                     {"delta", std::move(delta)},
                                     {"logprobs", std::move(logprobs)},
                                     {"finish_reason", std::move(finish)}}});
    if (include_usage) chunk["usage"] = nullptr;
    sent.send(json_text(chunk));
  };
  for (std::int64_t i = 0; i < options.choices; ++i)
    send(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
  Usage usage;
  Timings timings;
  std::int64_t finished = 0;
  while (const std::optional<AnswerEvent> event = sent.next()) {
    if (event->kind == EventKind::finish && event->finish == FinishReason::failed) {
      sent.send(json_text(stream_error_json(event->error)));
      return;
    }
    Json delta = delta_of(*event);
    if (delta.is_null()) continue;
    const bool last = event->kind == EventKind::finish;
    send(event->choice, std::move(delta),
         options.logprobs && !event->logprobs.empty() ? chat_logprobs_json(event->logprobs) : Json(),
         last ? Json(openai_name(event->finish)) : Json());
    if (!last) continue;
    add_usage(usage, event->usage, finished++ == 0);
    timings = event->timings;
  }
  if (sent.gone()) return;
  if (include_usage) {
    chunk["choices"] = Json::array();
    chunk["usage"] = usage_json(usage);
    chunk["timings"] = timings_json(timings);
    sent.send(json_text(chunk));
  }
  sent.send("[DONE]");
}

}  // namespace

HttpReply answer_chat_completions(Service& service, const HttpRequest& http) {
  const Json body = parse_json(http.body);
  Fields fields(body, "");
  const ChatRequest request = read_chat_request(fields, service);
  const StreamFields stream = read_stream_fields(fields);
  fields.finish();
  ChatReplyHead head{.created = std::time(nullptr), .model = service.model(service.model_index(request.model)).name};
  std::shared_ptr<EventSource> source = ask(service, request, http);
  if (!stream.stream) {
    const std::vector<CollectedChoice> choices = collect(*source, request.options.choices, http);
    Json reply = head.json("chat.completion");
    for (std::size_t i = 0; i < choices.size(); ++i)
      reply["choices"].push_back(choice_json(choices[i], i, request.options.logprobs));
    reply["usage"] = usage_json(usage_of(choices));
    reply["timings"] = timings_json(choices.back().timings);
    return {.body = json_text(reply)};
  }
  source = with_first(first_event(*source, http), source);
  return {.type = "text/event-stream", .pieces = [=, &service](const PieceWriter& write) {
            SentEvents sent(source, http, write, service.options().comment_seconds);
            stream_chat(sent, head, request.options, stream.include_usage);
          }};
}

}  // namespace etna::serve
