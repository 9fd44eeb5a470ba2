#pragma once

#include <etna/serve/answer_event.h>
#include <etna/serve/json_text.h>

/// Parts of replies that OpenAI's endpoints share.
namespace etna::serve {

/// "stop", "length", "tool_calls", "error"
const char* openai_name(FinishReason reason);
/// prompt_tokens, completion_tokens, total_tokens, with those cached and those of reasoning.
Json usage_json(const Usage& usage);
/// An extension: seconds until the prompt was read, until the first token, in all, and the longest gap.
Json timings_json(const Timings& timings);
/// {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal": null}
Json chat_logprobs_json(const std::vector<TokenLogprobs>& tokens);
/// {"error": {...}} of an answer that failed after its first bytes.
Json stream_error_json(const AnswerError& error);

}  // namespace etna::serve
