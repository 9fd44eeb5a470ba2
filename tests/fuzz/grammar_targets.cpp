#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <etna/models/grammar/grammar.h>
#include <fuzz/targets.h>

namespace etna::fuzz {
namespace {

using MakeGrammar = std::shared_ptr<models::TokenGrammar>(const models::GrammarVocabulary&, std::string_view,
                                                          const models::GrammarLimits&);

const models::GrammarVocabulary& bytes_as_tokens() {
  static const models::GrammarVocabulary vocabulary = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    texts.emplace_back();
    return models::GrammarVocabulary(std::move(texts), {256});
  }();
  return vocabulary;
}

/// Makes a grammar of a source and follows it for a few tokens, which depend on the source.
bool walk_grammar(const std::uint8_t* data, std::size_t size, MakeGrammar* make, bool json) try {
  const std::vector<char> source(data, data + size);
  models::GrammarLimits limits;
  limits.nodes = 20'000;
  limits.states = 5'000;
  limits.work = 2'000'000;
  const auto grammar = make(bytes_as_tokens(), {source.data(), source.size()}, limits);
  std::uint32_t random = static_cast<std::uint32_t>(size) * 2654435761u + 1;
  models::TokenGrammar::State state = models::TokenGrammar::kStart;
  std::string text;
  for (int n = 0; n < 60; ++n) {
    if (json && grammar->may_end(state) && !nlohmann::json::accept(text)) std::abort();
    const auto mask = grammar->allowed(state);
    std::vector<std::int32_t> tokens;
    for (std::int32_t token = 0; token < 257; ++token)
      if ((mask[static_cast<std::size_t>(token) / 32] >> token % 32 & 1) != 0) tokens.push_back(token);
    if (tokens.empty()) std::abort();  // a dead end
    random = random * 1664525u + 1013904223u;
    const std::int32_t token = tokens[(random >> 8) % tokens.size()];
    if (token == 256) break;
    state = grammar->next(state, token);
    if (state == models::TokenGrammar::kRefused) std::abort();
    text += static_cast<char>(token);
  }
  return true;
} catch (const models::GrammarError& error) {
  const std::string_view text = error.what();
  if (text.empty() || text.size() > 1000 || text.find('\n') != std::string_view::npos) std::abort();
  return false;
}

}  // namespace

bool json_schema(const std::uint8_t* data, std::size_t size) {
  return walk_grammar(data, size, models::json_schema_grammar, true);
}

bool regex(const std::uint8_t* data, std::size_t size) {
  return walk_grammar(data, size, models::regex_grammar, false);
}

bool gbnf(const std::uint8_t* data, std::size_t size) { return walk_grammar(data, size, models::gbnf_grammar, false); }

}  // namespace etna::fuzz
