#include <etna/serve/prompt_logprobs.h>

#include <memory>

#include <fmt/format.h>

#include <etna/models/generator.h>
#include <etna/serve/api_error.h>
#include <etna/serve/receipts.h>
#include <etna/serve/text_of_tokens.h>

namespace etna::serve {
namespace {

ApiError client_gone() { return {499, "invalid_request_error", "the client went away", "", "cancelled"}; }

}  // namespace

std::vector<TokenLogprobs> prompt_logprobs(Service& service, std::size_t model, const HttpRequest& request,
                                           const std::vector<std::int32_t>& tokens, std::int64_t top) {
  const ServedModel& served = service.model(model);
  if (request.gone()) throw client_gone();
  check_prompt(tokens, served);
  std::vector<models::GeneratedToken> found;
  try {
    // Others go on between its chunks.
    service.engine().run_in_parts(
        request.client,
        [&, text = std::shared_ptr<models::TextLogprobs>()]() mutable {
          if (request.gone()) throw client_gone();
          if (!text) text = std::make_shared<models::TextLogprobs>(*served.generator, tokens, top, served.adapter);
          if (text->read()) return true;
          found = text->take();
          return false;
        },
        request.receipt);
  } catch (const models::CacheFull& full) {
    throw unavailable(fmt::format("the cache has no room for this prompt beside what runs; try again: {}", full.what()),
                      "cache_full", 1);
  }
  if (request.receipt) request.receipt->scored(std::ssize(tokens));
  const TextOfTokens text(served.tokenizer, {}, {}, false);
  std::vector<TokenLogprobs> result;
  result.reserve(found.size());
  for (const models::GeneratedToken& token : found) result.push_back(text.logprobs(token));
  return result;
}

}  // namespace etna::serve
