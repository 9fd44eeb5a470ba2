#include <etna/models/grammar/grammar.h>

#include <functional>
#include <map>

#include <etna/models/grammar/internal/automaton_grammar.h>
#include <etna/models/grammar/internal/schema_compiler.h>

namespace etna::models {
namespace {

using ExpressionId = Expressions::Id;

/// A search for a word, byte by byte (Knuth, Morris, Pratt): a rule for each prefix of the word that was read last.
/// @param found what follows the first occurrence, given the rule of the begin @param ends whether the text may end
/// before it
ExpressionId search_for(Expressions& expressions, std::string_view word, bool ends,
                        const std::function<ExpressionId(ExpressionId begin)>& found) {
  if (word.empty()) throw GrammarError("grammar: a text to search for is empty");
  std::vector<ExpressionId> rules;
  for (std::size_t i = 0; i < word.size(); ++i) rules.push_back(expressions.rule("text"));
  const ExpressionId behind = found(rules[0]);
  // After each prefix, the longest prefix that is also an end of it without its first byte.
  std::vector<std::size_t> fall(word.size() + 1, 0);
  for (std::size_t i = 1; i < word.size(); ++i) {
    std::size_t k = fall[i];
    while (k > 0 && word[k] != word[i]) k = fall[k];
    fall[i + 1] = word[k] == word[i] ? k + 1 : 0;
  }
  for (std::size_t i = 0; i < word.size(); ++i) {
    std::map<std::size_t, ByteSet> next;
    for (unsigned byte = 0; byte < 256; ++byte) {
      std::size_t k = i;
      while (k > 0 && static_cast<unsigned char>(word[k]) != byte) k = fall[k];
      if (static_cast<unsigned char>(word[k]) == byte) ++k;
      next[k].add(byte, byte);
    }
    std::vector<ExpressionId> ways;
    for (const auto& [k, set] : next)
      ways.push_back(expressions.sequence(expressions.bytes(set), k == word.size() ? behind : rules[k]));
    if (ends) ways.push_back(expressions.empty());
    expressions.define(rules[i], expressions.choice(ways));
  }
  return rules[0];
}

ExpressionId part_of(Expressions& expressions, const GrammarPart& part, const GrammarLimits& limits) {
  if (part.texts.empty()) throw GrammarError("grammar: a part of a text is empty");
  switch (part.kind) {
    case GrammarPart::Kind::json:
      return compile_schema(part.texts[0], expressions, limits);
    case GrammarPart::Kind::until:
      return search_for(expressions, part.texts[0], false, [&](ExpressionId) { return expressions.empty(); });
    case GrammarPart::Kind::one_of:
      break;
  }
  std::vector<ExpressionId> ways;
  for (const std::string& text : part.texts) ways.push_back(expressions.text(text));
  return expressions.choice(ways);
}

ExpressionId one_of_texts(Expressions& expressions, std::span<const GrammarText> texts, const GrammarLimits& limits) {
  std::vector<ExpressionId> ways;
  for (const GrammarText& text : texts) {
    ExpressionId whole = expressions.empty();
    for (const GrammarGroup& group : text) {
      ExpressionId parts = expressions.empty();
      for (const GrammarPart& part : group.parts)
        parts = expressions.sequence(parts, part_of(expressions, part, limits));
      whole = expressions.sequence(whole, group.optional ? expressions.optional(parts) : parts);
    }
    ways.push_back(whole);
  }
  return expressions.choice(ways);
}

}  // namespace

std::shared_ptr<TokenGrammar> parts_grammar(const GrammarVocabulary& vocabulary, std::span<const GrammarText> texts,
                                            const GrammarLimits& limits) {
  check_limits(limits);
  const auto expressions = std::make_shared<Expressions>(limits.nodes);
  const ExpressionId root = one_of_texts(*expressions, texts, limits);
  return std::make_shared<AutomatonGrammar>(vocabulary, expressions, root, limits);
}

std::shared_ptr<TokenGrammar> marked_grammar(const GrammarVocabulary& vocabulary, std::string_view marker,
                                             std::span<const GrammarText> texts, const GrammarLimits& limits) {
  check_limits(limits);
  const auto expressions = std::make_shared<Expressions>(limits.nodes);
  const ExpressionId root = search_for(*expressions, marker, true, [&](ExpressionId begin) {
    return expressions->sequence(one_of_texts(*expressions, texts, limits), begin);
  });
  return std::make_shared<AutomatonGrammar>(vocabulary, expressions, root, limits);
}

}  // namespace etna::models
