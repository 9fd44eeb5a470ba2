#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <etna/models/grammar/grammar.h>
#include <etna/serve/answer_syntax.h>
#include <etna/serve/json_text.h>

/// Calls of tools as a grammar. Internal.
namespace etna::serve {

/// Whose arguments must validate.
enum class StrictTools : unsigned char { all, marked };

/// Any text with calls of a syntax, so that what a reader takes for a call is one, and its arguments validate.
/// @return nullopt where the syntax has no calls
/// @throws ApiError 400 for a schema that a form without JSON cannot honour
std::optional<models::MarkedText> call_texts(const AnswerSyntax& syntax, std::span<const Tool> tools,
                                             StrictTools strict);

/// The schema of {"name": NAME, "arguments": {…}}. @param strict else the arguments are any object
Json call_schema(const Tool& tool, const char* name_field, const char* arguments_field, bool strict);

}  // namespace etna::serve
