#pragma once

#include <cstdint>
#include <vector>

#include <etna/serve/answer_event.h>
#include <etna/serve/http.h>
#include <etna/serve/service.h>

namespace etna::serve {

/// Log-probabilities of the tokens of a prompt, all but the first one, which has none. Reads the prompt in the engine's
/// thread, between two steps. @param top also so many most probable tokens at each position
/// @throws ApiError 400 for a prompt without tokens or too long a one, 503 where the cache has no room; as
/// Engine::run()
std::vector<TokenLogprobs> prompt_logprobs(Service& service, std::size_t model, const HttpRequest& request,
                                           const std::vector<std::int32_t>& tokens, std::int64_t top);

}  // namespace etna::serve
