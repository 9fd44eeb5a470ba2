#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <etna/models/grammar/grammar.h>
#include <etna/serve/chat_request.h>

namespace etna::models {
class GrammarVocabulary;
}

namespace etna::serve {

struct ServedModel;

/// Compiles the forms that answers must have, and keeps the last ones: clients send the same schema again and again.
/// Safe to use from all threads; what it returns belongs to the engine's thread.
class Grammars {
 public:
  explicit Grammars(std::size_t kept = 32);
  ~Grammars();

  /// Null for plain text.
  /// @throws ApiError 400 for a form that is invalid or too large, and for a model whose tokenizer cannot follow one
  std::shared_ptr<models::TokenGrammar> compile(const ServedModel& model, const OutputFormat& format);

 private:
  struct Kept {
    std::string key;
    std::shared_ptr<models::TokenGrammar> grammar;
  };
  std::shared_ptr<const models::GrammarVocabulary> vocabulary(const ServedModel& model, bool special);

  const std::size_t most_;
  std::mutex mutex_;
  /// By tokenizer, and whether special tokens are texts.
  std::map<std::pair<const void*, bool>, std::shared_ptr<const models::GrammarVocabulary>> vocabularies_;
  std::list<Kept> kept_;  ///< the last used first
};

}  // namespace etna::serve
