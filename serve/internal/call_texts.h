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

/// What follows a marker in each call of a syntax, so that arguments validate.
struct CallTexts {
  std::string marker;  ///< where every call of this syntax has it
  std::vector<models::GrammarText> texts;
};

/// Whose arguments must validate.
enum class StrictTools : unsigned char { all, marked };

/// @return nullopt where calls of this syntax have no marker of their own, so that nothing tells them from text
/// @throws ApiError 400 for a schema that a form without JSON cannot honour
std::optional<CallTexts> call_texts(const AnswerSyntax& syntax, std::span<const Tool> tools, StrictTools strict);

/// The schema of {"name": NAME, "arguments": {…}}. @param strict else the arguments are any object
Json call_schema(const Tool& tool, const char* name_field, const char* arguments_field, bool strict);

}  // namespace etna::serve
