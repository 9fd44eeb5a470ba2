#pragma once

#include <etna/serve/chat_request.h>
#include <etna/serve/fields.h>
#include <etna/serve/service.h>

namespace etna::serve {

struct ApiError;

/// Reads what Anthropic's /v1/messages and /v1/messages/count_tokens share: model, system, messages, tools, tool_choice
/// and thinking. @throws ApiError 400
ChatRequest read_anthropic_chat(Fields& fields);
/// Reads the rest of /v1/messages: lengths, sampling and stop texts. @throws ApiError 400
void read_anthropic_options(Fields& fields, const Service& service, ChatRequest& request);

/// {"type": "error", "error": {"type", "message"}}
std::string anthropic_error_body(const ApiError& error);

}  // namespace etna::serve
