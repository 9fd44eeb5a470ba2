#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include <etna/models/grammar/grammar.h>
#include <etna/models/grammar/internal/byte_automaton.h>
#include <etna/models/grammar/internal/vocabulary_trie.h>

namespace etna::models {

/// @throws GrammarError for limits that are out of range
void check_limits(const GrammarLimits& limits);

/// The tokens that a grammar over bytes allows.
class AutomatonGrammar : public TokenGrammar {
 public:
  AutomatonGrammar(const GrammarVocabulary& vocabulary, std::shared_ptr<const Expressions> expressions,
                   Expressions::Id root, const GrammarLimits& limits);

  State next(State state, std::int32_t token) override;
  std::span<const std::uint32_t> allowed(State state) override;
  bool may_end(State state) override;
  std::int64_t vocabulary() const override { return trie_->vocabulary(); }

 private:
  struct Mask {
    std::int32_t horizon;
    std::vector<std::uint32_t> bits;
  };

  void check(State state) const;
  State after(State state, std::int32_t token);
  bool alive(State state);
  template <typename Found>
  void walk(State state, Found&& found);
  Mask& mask_of(State state);

  std::shared_ptr<const VocabularyTrie> trie_;
  ByteAutomaton automaton_;
  State complete_;
  std::size_t most_masks_;
  std::list<Mask> masks_;  ///< the most recently used first
  std::unordered_map<std::int32_t, std::list<Mask>::iterator> mask_of_class_;
  std::vector<State> path_;
  std::vector<std::uint8_t> alive_;  ///< by state: 0 unknown, 1 no, 2 yes
};

}  // namespace etna::models
