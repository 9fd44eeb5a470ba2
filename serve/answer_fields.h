#pragma once

#include <etna/serve/chat_request.h>
#include <etna/serve/fields.h>
#include <etna/serve/service.h>

namespace etna::serve {

/// Reads the fields of OpenAI's API that say how an answer is written: sampling, lengths, stop texts, and the
/// extensions of docs/serving.md. @throws ApiError 400
AnswerOptions read_answer_options(Fields& fields, const Service& service);
/// Reads `response_format`, `grammar` and `regex`. @throws ApiError 400
OutputFormat read_output_format(Fields& fields);
/// Reads fields that official clients send and that ask for nothing here, such as `user` and `store`: false.
void read_neutral_fields(Fields& fields);
/// Reads `stream` and `stream_options`.
struct StreamFields {
  bool stream = false, include_usage = false;
};
StreamFields read_stream_fields(Fields& fields);

/// What a generator makes of options. @param choice of this request: each has a seed of its own
/// @throws ApiError 400 for a format that this model's vocabulary cannot follow
models::GenerationOptions generation_options(const AnswerOptions& options, const Service& service, std::size_t model,
                                             std::int64_t prompt_tokens, std::int64_t choice, std::uint64_t seed);

}  // namespace etna::serve
