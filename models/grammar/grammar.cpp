#include <etna/models/grammar/grammar.h>

#include <utility>

#include <etna/models/grammar/internal/automaton_grammar.h>
#include <etna/models/grammar/internal/gbnf.h>
#include <etna/models/grammar/internal/json_grammar.h>
#include <etna/models/grammar/internal/regex.h>
#include <etna/models/grammar/internal/schema_compiler.h>

namespace etna::models {
namespace {

template <typename Parse>
std::shared_ptr<TokenGrammar> make_grammar(const GrammarVocabulary& vocabulary, const GrammarLimits& limits,
                                           Parse&& parse) {
  check_limits(limits);
  const auto expressions = std::make_shared<Expressions>(limits.nodes);
  const Expressions::Id root = parse(*expressions);
  return std::make_shared<AutomatonGrammar>(vocabulary, expressions, root, limits);
}

}  // namespace

std::shared_ptr<TokenGrammar> json_schema_grammar(const GrammarVocabulary& vocabulary, std::string_view schema,
                                                  const GrammarLimits& limits) {
  return make_grammar(vocabulary, limits,
                      [&](Expressions& expressions) { return compile_schema(schema, expressions, limits); });
}

std::shared_ptr<TokenGrammar> json_object_grammar(const GrammarVocabulary& vocabulary, const GrammarLimits& limits) {
  return make_grammar(vocabulary, limits,
                      [&](Expressions& expressions) { return JsonGrammar(expressions, limits).any_object(); });
}

std::shared_ptr<TokenGrammar> regex_grammar(const GrammarVocabulary& vocabulary, std::string_view expression,
                                            const GrammarLimits& limits) {
  return make_grammar(vocabulary, limits, [&](Expressions& expressions) {
    const auto write = [&](const CodePoints& set) { return expressions.characters(set); };
    return Regex(expression, "regex", limits).compile(expressions, write, true);
  });
}

std::shared_ptr<TokenGrammar> gbnf_grammar(const GrammarVocabulary& vocabulary, std::string_view grammar,
                                           const GrammarLimits& limits) {
  return make_grammar(vocabulary, limits,
                      [&](Expressions& expressions) { return parse_gbnf(grammar, expressions, limits); });
}

}  // namespace etna::models
