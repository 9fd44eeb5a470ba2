#include <etna/models/grammar/internal/automaton_grammar.h>

#include <algorithm>

#include <fmt/format.h>

namespace etna::models {

void check_limits(const GrammarLimits& limits) {
  constexpr int kDeepest = 1000;
  constexpr std::size_t kMost = 100'000'000;
  if (limits.depth < 0 || limits.depth > kDeepest)
    throw GrammarError(fmt::format("grammar: GrammarLimits::depth is {}; wanted 0 to {}", limits.depth, kDeepest));
  for (const auto& [name, limit] : {std::pair("nodes", limits.nodes), std::pair("states", limits.states)})
    if (limit < 1 || limit > kMost)
      throw GrammarError(fmt::format("grammar: GrammarLimits::{} is {}; wanted 1 to {}", name, limit, kMost));
}

AutomatonGrammar::AutomatonGrammar(const GrammarVocabulary& vocabulary, std::shared_ptr<const Expressions> expressions,
                                   Expressions::Id root, const GrammarLimits& limits)
    : trie_(vocabulary.trie()),
      // alive() looks a token further.
      automaton_(std::move(expressions), root, trie_->bytes(), trie_->longest() * (trie_->complete() ? 1 : 2), limits),
      complete_(automaton_.complete()),
      most_masks_(std::max<std::size_t>(
          1, limits.mask_bytes / (static_cast<std::size_t>(trie_->vocabulary()) / 8 + sizeof(Mask) + 64))),
      path_(trie_->longest() + 1) {
  if (!alive(kStart)) throw GrammarError("grammar: no text of this vocabulary's tokens matches it");
}

void AutomatonGrammar::check(State state) const {
  if (state < 0 || static_cast<std::size_t>(state) >= automaton_.size())
    throw GrammarError(
        fmt::format("grammar: {} is not a state; next() has returned 0 to {}", state, automaton_.size() - 1));
}

bool AutomatonGrammar::may_end(State state) {
  check(state);
  return automaton_.accepts(state);
}

AutomatonGrammar::State AutomatonGrammar::next(State state, std::int32_t token) {
  if (state == kRefused) return kRefused;
  check(state);
  if (token < 0 || token >= vocabulary()) return kRefused;
  automaton_.begin_call();
  return after(state, token);
}

AutomatonGrammar::State AutomatonGrammar::after(State state, std::int32_t token) {
  if (trie_->stops(token)) return automaton_.accepts(state) ? complete_ : kRefused;
  const std::string_view text = trie_->text(token);
  if (text.empty()) return kRefused;
  for (const char c : text) {
    state = automaton_.step(state, static_cast<unsigned char>(c));
    if (state == ByteAutomaton::kDead) return kRefused;
  }
  return alive(state) ? state : kRefused;
}

/// Calls found(tokens, state) for each text of tokens that may come next, until it returns false.
template <typename Found>
void AutomatonGrammar::walk(State state, Found&& found) {
  const std::vector<VocabularyTrie::Node>& nodes = trie_->nodes();
  const std::int32_t* tokens = trie_->tokens().data();
  path_[0] = state;
  std::int32_t row = -1;
  State row_state = -1;
  for (std::size_t i = 0; i + 1 < nodes.size();) {
    const VocabularyTrie::Node node = nodes[i];
    const State before = path_[node.depth];
    if (before != row_state) {
      row = automaton_.row(before);
      row_state = before;
    }
    const State now = automaton_.step_in_row(row, before, node.byte);
    if (now == ByteAutomaton::kDead) {
      i = node.skip;
      continue;
    }
    path_[node.depth + std::size_t{1}] = now;
    const std::uint32_t end = nodes[i + 1].first;
    // The tokens of a leaf end where the next node's begin; those of an inner node are shorter than its children's.
    if (node.first != end && !found(std::span(tokens + node.first, end - node.first), now)) return;
    ++i;
  }
}

/// Whether a text can go on or end here. With a token for each byte it always can; else this looks one token ahead.
bool AutomatonGrammar::alive(State state) {
  if (trie_->complete() || automaton_.accepts(state)) return true;
  const auto at = static_cast<std::size_t>(state);
  if (at >= alive_.size()) alive_.resize(std::max(at + 1, automaton_.size()));
  if (alive_[at] == 0) {
    bool any = false;
    const std::vector<State> path = path_;
    walk(state, [&](std::span<const std::int32_t>, State) {
      any = true;
      return false;
    });
    path_ = path;
    alive_[at] = any ? 2 : 1;
  }
  return alive_[at] == 2;
}

std::span<const std::uint32_t> AutomatonGrammar::allowed(State state) {
  check(state);
  automaton_.begin_call();
  return mask_of(state).bits;
}

AutomatonGrammar::Mask& AutomatonGrammar::mask_of(State state) {
  const std::int32_t horizon = automaton_.horizon_class(state);
  if (const auto known = mask_of_class_.find(horizon); known != mask_of_class_.end()) {
    masks_.splice(masks_.begin(), masks_, known->second);
    return masks_.front();
  }
  Mask mask{horizon, std::vector<std::uint32_t>((static_cast<std::size_t>(vocabulary()) + 31) / 32)};
  const auto allow = [&](std::int32_t token) { mask.bits[static_cast<std::size_t>(token) / 32] |= 1u << token % 32; };
  walk(state, [&](std::span<const std::int32_t> tokens, State now) {
    if (alive(now)) std::for_each(tokens.begin(), tokens.end(), allow);
    return true;
  });
  if (automaton_.accepts(state)) std::for_each(trie_->stop_tokens().begin(), trie_->stop_tokens().end(), allow);
  while (masks_.size() >= most_masks_) {
    mask_of_class_.erase(masks_.back().horizon);
    masks_.pop_back();
  }
  masks_.push_front(std::move(mask));
  mask_of_class_.emplace(horizon, masks_.begin());
  return masks_.front();
}

}  // namespace etna::models
