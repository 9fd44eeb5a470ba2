#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <etna/models/grammar/grammar.h>
#include <etna/models/grammar/internal/expressions.h>

namespace etna::models {

/// Follows texts byte by byte through a grammar, and makes the states of a deterministic automaton as texts reach them.
/// A state is a set of threads; a thread is what must still come, a list of cells on the stack of a pushdown automaton,
/// of which the first cannot be empty. It is taken apart when a byte comes, as far as it can start with that byte.
/// Equal lists are stored once, so that states that allow the same continuations are found equal.
///
/// Every state can be completed: expressions that match nothing are never entered.
class ByteAutomaton {
 public:
  using State = std::int32_t;
  static constexpr State kDead = -1, kStart = 0;

  /// @param writable bytes that occur in tokens
  /// @param horizon states are told apart in classes by what they allow within this many bytes
  /// @throws GrammarError for left recursion, and for a grammar that matches nothing
  ByteAutomaton(std::shared_ptr<const Expressions> expressions, Expressions::Id root, const ByteSet& writable,
                std::size_t horizon, const GrammarLimits& limits);

  State step(State state, unsigned char byte);
  bool accepts(State state) const { return states_[static_cast<std::size_t>(state)].accepts; }
  /// Equal for states whose continuations are equal within the horizon.
  std::int32_t horizon_class(State state);

  std::size_t size() const { return states_.size(); }
  /// The state of a complete text that cannot go on.
  State complete();
  /// Call before each call of the caller: the limit of work counts from here. Forgets transitions if there are many.
  void begin_call();
  /// A row of transitions: the state after each byte, or kUnknown. Valid until begin_call().
  static constexpr State kUnknown = -2;
  std::int32_t row(State state);
  State step_in_row(std::int32_t row, State state, unsigned char byte) {
    const State known = transitions_[static_cast<std::size_t>(row) * 256 + byte];
    return known != kUnknown ? known : fill(row, state, byte);
  }

 private:
  using CellId = std::int32_t;
  static constexpr CellId kEnd = 0;

  struct Cell {
    Expressions::Id expression = 0;
    CellId next = kEnd;
    std::uint32_t count = 0;  ///< of a loop: repetitions that have begun; capped where more make no difference
    bool loop = false;        ///< a repetition that is under way, rather than an expression to come
    bool open = false;        ///< a loop whose current repetition has no byte yet
    bool has_open = false;    ///< this cell or one below
    CellId horizon = 0;       ///< what this cell and those below allow within the horizon
    /// Lists that differ only in the count of their topmost loop have the same skeleton; that count and whether higher
    /// ones allow more.
    CellId skeleton = 0;
    std::uint32_t top_count = 0;
    bool more_is_freer = false;
  };
  struct Key {
    std::int32_t a, b, next;
    std::uint32_t c;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct StateInfo {
    std::size_t first;
    std::uint32_t threads;
    bool accepts;
    std::int32_t horizon = -1, row = -1;
  };

  CellId cell(Expressions::Id expression, CellId next);
  CellId loop(Expressions::Id expression, std::uint32_t count, bool open, CellId next);
  CellId intern(Cell cell);
  CellId close_open(CellId id);
  void add_threads(CellId first);
  void match(CellId head, unsigned char byte, std::vector<CellId>& rests);
  void begin_visit();
  void spend(std::size_t steps);
  [[noreturn]] void refuse_threads() const;
  State take_state();
  State fill(std::int32_t row, State state, unsigned char byte);
  std::span<const CellId> threads(State state) const;

  std::shared_ptr<const Expressions> expressions_;
  GrammarLimits limits_;
  std::uint32_t horizon_;
  std::vector<bool> nullable_, productive_;
  std::vector<ByteSet> first_;  ///< bytes that texts of each expression can start with

  std::vector<Cell> cells_;
  std::unordered_map<Key, CellId, KeyHash> known_cells_, horizons_, skeletons_;

  std::vector<StateInfo> states_;
  std::vector<CellId> thread_pool_;
  std::unordered_multimap<std::uint64_t, State> known_states_;
  std::unordered_multimap<std::uint64_t, std::int32_t> known_classes_;
  std::vector<std::vector<CellId>> classes_;
  std::vector<State> transitions_;
  std::vector<State> rows_;  ///< the states that have a row

  // Of the state that is being made.
  std::vector<CellId> work_list_, found_, rests_;
  std::vector<std::uint32_t> visited_;
  std::uint32_t visit_ = 0;
  bool found_end_ = false;
  std::size_t work_ = 0;
};

}  // namespace etna::models
