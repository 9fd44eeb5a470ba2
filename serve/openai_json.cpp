#include <etna/serve/openai_json.h>

#include <etna/data/tokenizers/stream_decoder.h>

namespace etna::serve {
namespace {

Json probability_json(const TokenProbability& token) {
  Json bytes = Json::array();
  for (const char byte : token.text) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", data::replace_invalid_utf8(token.text)}, {"logprob", token.logprob}, {"bytes", std::move(bytes)}};
}

}  // namespace

const char* openai_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::tool_calls:
      return "tool_calls";
    case FinishReason::failed:
      break;
  }
  return "error";
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
}

Json timings_json(const Timings& timings) {
  return {{"queued_seconds", timings.queued},
          {"first_token_seconds", timings.first_token},
          {"total_seconds", timings.total},
          {"longest_gap_seconds", timings.longest_gap}};
}

Json chat_logprobs_json(const std::vector<TokenLogprobs>& tokens) {
  Json content = Json::array();
  for (const TokenLogprobs& token : tokens) {
    Json one = probability_json(token.chosen);
    one["top_logprobs"] = Json::array();
    for (const TokenProbability& other : token.top) one["top_logprobs"].push_back(probability_json(other));
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json stream_error_json(const AnswerError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", error.status >= 500 ? "server_error" : "invalid_request_error"},
            {"param", nullptr},
            {"code", error.code}}}};
}

}  // namespace etna::serve
