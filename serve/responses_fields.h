#pragma once

#include <string>

#include <etna/serve/chat_request.h>
#include <etna/serve/fields.h>
#include <etna/serve/service.h>

namespace etna::serve {

/// A request of OpenAI's /v1/responses.
struct ResponsesRequest {
  ChatRequest chat;
  bool stream = false;
  Json shown = Json::object();  ///< fields that the reply repeats: instructions, tools, metadata, ...
};
/// @throws ApiError 400 for every field that asks for what this server lacks
ResponsesRequest read_responses_request(const Json& body, const Service& service);

}  // namespace etna::serve
