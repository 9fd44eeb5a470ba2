#pragma once

#include <memory>
#include <string>
#include <vector>

#include <etna/data/tokenizers/chat_template.h>
#include <etna/serve/answer_stream.h>
#include <etna/serve/chat_request.h>
#include <etna/serve/http.h>
#include <etna/serve/service.h>

namespace etna::serve {

/// The conversation as the model reads it, up to where its answer begins.
/// @throws ApiError 400 for a model without a chat template and for what its template refuses
std::vector<data::TextPart> chat_prompt(const Service& service, std::size_t model, const ChatRequest& request);

/// Asks the model for an answer: the one way from all chat APIs to the engine.
/// @throws ApiError 400, 404, 429, 503
std::shared_ptr<EventSource> ask(Service& service, const ChatRequest& request, const HttpRequest& http);

}  // namespace etna::serve
