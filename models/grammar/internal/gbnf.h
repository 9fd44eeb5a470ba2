#pragma once

#include <string_view>

#include <etna/models/grammar/grammar.h>
#include <etna/models/grammar/internal/expressions.h>

namespace etna::models {

/// The rule "root" of a grammar in GBNF. @throws GrammarError with line and column
Expressions::Id parse_gbnf(std::string_view source, Expressions& expressions, const GrammarLimits& limits);

}  // namespace etna::models
