#include <etna/models/grammar/internal/byte_automaton.h>

#include <algorithm>

#include <fmt/format.h>

namespace etna::models {
namespace {

constexpr std::size_t kMostRows = 65'536;  // of 1 KiB

std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t hash_of_list(std::span<const std::int32_t> list, bool flag) {
  std::uint64_t hash = flag ? 7 : 3;
  for (const std::int32_t item : list) hash = mix_bits(hash + 0x9E3779B97F4A7C15u + static_cast<std::uint32_t>(item));
  return hash;
}

}  // namespace

std::size_t ByteAutomaton::KeyHash::operator()(const Key& key) const {
  const auto low = [](std::int32_t x) { return std::uint64_t{static_cast<std::uint32_t>(x)}; };
  return static_cast<std::size_t>(mix_bits(mix_bits(low(key.a) << 32 | low(key.b)) + (low(key.next) << 32 | key.c)));
}

ByteAutomaton::ByteAutomaton(std::shared_ptr<const Expressions> expressions, Expressions::Id root,
                             const ByteSet& writable, std::size_t horizon, const GrammarLimits& limits)
    : expressions_(std::move(expressions)),
      limits_(limits),
      horizon_(static_cast<std::uint32_t>(std::min<std::size_t>(horizon, Expressions::kMostRepeats)) + 1),
      nullable_(expressions_->nullable()),
      productive_(expressions_->productive(writable)) {
  std::vector<Expressions::Id> order;
  if (const std::string rule = expressions_->left_recursive(nullable_, order); !rule.empty())
    throw GrammarError(fmt::format(
        "grammar: {} is left-recursive: it can begin with itself; let it repeat or recur at its end", rule));
  if (!productive_[static_cast<std::size_t>(root)])
    throw GrammarError("grammar: no text of this vocabulary matches it");
  first_ = expressions_->first_bytes(nullable_, order);
  cells_.emplace_back();  // kEnd
  visited_.resize(1);
  begin_visit();
  add_threads(cell(root, kEnd));
  take_state();
}

void ByteAutomaton::spend(std::size_t steps) {
  work_ += steps;
  if (work_ > limits_.work)
    throw GrammarError(
        fmt::format("grammar: it takes more than {} steps to tell which tokens may come next; make it "
                    "less ambiguous or raise GrammarLimits::work",
                    limits_.work));
}

void ByteAutomaton::refuse_threads() const {
  throw GrammarError(
      fmt::format("grammar: a text can be read in more than {} ways; make it less ambiguous or raise "
                  "GrammarLimits::threads",
                  limits_.threads));
}

void ByteAutomaton::begin_call() {
  work_ = 0;
  if (rows_.size() < kMostRows) return;
  for (const State state : rows_) states_[static_cast<std::size_t>(state)].row = -1;
  rows_.clear();
  transitions_.clear();
}

ByteAutomaton::CellId ByteAutomaton::intern(Cell cell) {
  const Key key{cell.expression, (cell.loop ? 2 : 0) | (cell.open ? 1 : 0), cell.next, cell.count};
  const auto [found, added] = known_cells_.try_emplace(key, static_cast<CellId>(cells_.size()));
  if (!added) return found->second;
  if (cells_.size() > 4 * limits_.states)
    throw GrammarError(
        fmt::format("grammar: texts reach more than {} places in it; raise GrammarLimits::states", 4 * limits_.states));
  const CellId id = found->second;
  const Cell& next = cells_[static_cast<std::size_t>(cell.next)];
  cell.has_open = cell.open || next.has_open;
  const auto& node = (*expressions_)[cell.expression];
  Key horizon{key.a, key.b, next.horizon, 0}, skeleton{key.a, key.b, next.skeleton, 0};
  cell.top_count = next.top_count;
  cell.more_is_freer = next.more_is_freer;
  if (cell.loop) {
    // Distances to both bounds matter, as far as the horizon sees them.
    const std::uint32_t missing = cell.count < node.min ? std::min(node.min - cell.count, horizon_) : 0;
    const bool bounded = node.max != Expressions::kUnbounded;
    const std::uint32_t left = bounded ? std::min(node.max - cell.count, horizon_) : horizon_;
    const auto [place, fresh] =
        horizons_.try_emplace({static_cast<std::int32_t>(missing), static_cast<std::int32_t>(left), -1, 0},
                              static_cast<CellId>(horizons_.size() + 1));
    horizon.c = static_cast<std::uint32_t>(place->second);
    cell.top_count = cell.count;
    cell.more_is_freer = !bounded;
    skeleton.next = cell.next;
    skeleton.b |= 4;
    const bool free = nullable_[static_cast<std::size_t>(node.first)];
    if (bounded && cell.count < node.min && !free) skeleton.c = cell.count + 1;  // not to be compared
  }
  cell.horizon = horizons_.try_emplace(horizon, static_cast<CellId>(horizons_.size() + 1)).first->second;
  cell.skeleton = skeletons_.try_emplace(skeleton, static_cast<CellId>(skeletons_.size() + 1)).first->second;
  cells_.push_back(cell);
  visited_.push_back(0);
  return id;
}

ByteAutomaton::CellId ByteAutomaton::cell(Expressions::Id expression, CellId next) {
  if (expression == expressions_->empty()) return next;
  Cell cell;
  cell.expression = expression;
  cell.next = next;
  return intern(cell);
}

ByteAutomaton::CellId ByteAutomaton::loop(Expressions::Id expression, std::uint32_t count, bool open, CellId next) {
  const auto& node = (*expressions_)[expression];
  Cell cell;
  cell.expression = expression;
  cell.next = next;
  cell.count = node.max == Expressions::kUnbounded ? std::min(count, node.min) : count;
  cell.loop = true;
  cell.open = open;
  return intern(cell);
}

/// The same list after a byte: each open repetition has one.
ByteAutomaton::CellId ByteAutomaton::close_open(CellId id) {
  if (!cells_[static_cast<std::size_t>(id)].has_open) return id;
  std::vector<CellId> above;
  while (cells_[static_cast<std::size_t>(id)].has_open) {
    above.push_back(id);
    id = cells_[static_cast<std::size_t>(id)].next;
  }
  spend(above.size());
  while (!above.empty()) {
    Cell cell = cells_[static_cast<std::size_t>(above.back())];
    above.pop_back();
    cell.open = false;
    cell.next = id;
    id = intern(cell);
  }
  return id;
}

void ByteAutomaton::begin_visit() {
  if (++visit_ != 0) return;
  std::fill(visited_.begin(), visited_.end(), 0);
  visit_ = 1;
}

/// Adds the threads that a list of cells stands for: lists whose first cell is not empty, and whether the text may end.
void ByteAutomaton::add_threads(CellId first) {
  work_list_.assign(1, first);
  std::size_t steps = 0;
  while (!work_list_.empty()) {
    const CellId id = work_list_.back();
    work_list_.pop_back();
    if (visited_[static_cast<std::size_t>(id)] == visit_) continue;
    visited_[static_cast<std::size_t>(id)] = visit_;
    if (++steps % 4096 == 0) spend(4096);
    if (id == kEnd) {
      found_end_ = true;
      continue;
    }
    const Cell at = cells_[static_cast<std::size_t>(id)];
    const Expressions::Node node = (*expressions_)[at.expression];
    if (at.loop) {
      if (at.open) continue;  // repeating nothing leads nowhere
      const bool free = nullable_[static_cast<std::size_t>(node.first)];
      if (at.count >= node.min || free) work_list_.push_back(at.next);
      if ((node.max == Expressions::kUnbounded || at.count < node.max) &&
          productive_[static_cast<std::size_t>(node.first)])
        work_list_.push_back(cell(node.first, loop(at.expression, at.count + 1, free, at.next)));
      continue;
    }
    if (!nullable_[static_cast<std::size_t>(at.expression)]) {
      found_.push_back(id);
      if (found_.size() > 4 * limits_.threads) refuse_threads();
      continue;
    }
    switch (node.kind) {
      case Expressions::Kind::sequence:
        work_list_.push_back(cell(node.first, cell(node.second, at.next)));
        break;
      case Expressions::Kind::choice:
        steps += expressions_->alternatives(node).size();
        for (const Expressions::Id part : expressions_->alternatives(node))
          if (productive_[static_cast<std::size_t>(part)]) work_list_.push_back(cell(part, at.next));
        break;
      case Expressions::Kind::repeat:
        work_list_.push_back(loop(at.expression, 0, false, at.next));
        break;
      default:  // a rule
        work_list_.push_back(cell(expressions_->body(node), at.next));
    }
  }
  spend(steps % 4096);
}

/// What may follow a byte that a thread starts with: lists of cells.
void ByteAutomaton::match(CellId head, unsigned char byte, std::vector<CellId>& rests) {
  const auto starts = [&](Expressions::Id id) {
    const auto at = static_cast<std::size_t>(id);
    return productive_[at] && (first_[at].has(byte) || nullable_[at]);
  };
  work_list_.assign(1, head);
  std::size_t steps = 0;
  while (!work_list_.empty()) {
    const CellId id = work_list_.back();
    work_list_.pop_back();
    if (id == kEnd || visited_[static_cast<std::size_t>(id)] == visit_) continue;
    visited_[static_cast<std::size_t>(id)] = visit_;
    ++steps;
    const Cell at = cells_[static_cast<std::size_t>(id)];
    const Expressions::Node node = (*expressions_)[at.expression];
    if (at.loop) {
      if (at.open) continue;
      const bool free = nullable_[static_cast<std::size_t>(node.first)];
      if (at.count >= node.min || free) work_list_.push_back(at.next);
      if ((node.max == Expressions::kUnbounded || at.count < node.max) && starts(node.first))
        work_list_.push_back(cell(node.first, loop(at.expression, at.count + 1, free, at.next)));
      continue;
    }
    if (!starts(at.expression)) continue;
    switch (node.kind) {
      case Expressions::Kind::bytes:
        rests.push_back(at.next);
        break;
      case Expressions::Kind::sequence:
        if (starts(node.first)) work_list_.push_back(cell(node.first, cell(node.second, at.next)));
        break;
      case Expressions::Kind::choice:
        steps += expressions_->alternatives(node).size();
        for (const Expressions::Id part : expressions_->alternatives(node))
          if (starts(part)) work_list_.push_back(cell(part, at.next));
        break;
      case Expressions::Kind::repeat:
        work_list_.push_back(loop(at.expression, 0, false, at.next));
        break;
      case Expressions::Kind::rule:
        work_list_.push_back(cell(expressions_->body(node), at.next));
        break;
      default:
        break;
    }
  }
  spend(steps);
}

/// The state of the threads that expand() found.
ByteAutomaton::State ByteAutomaton::take_state() {
  const auto at = [&](CellId id) -> const Cell& { return cells_[static_cast<std::size_t>(id)]; };
  if (found_.size() > 1) {
    // Of threads that differ in one count only, the freest allows what the others do.
    const auto freer = [&](CellId a, CellId b) {
      return at(a).more_is_freer ? at(a).top_count > at(b).top_count : at(a).top_count < at(b).top_count;
    };
    std::sort(found_.begin(), found_.end(), [&](CellId a, CellId b) {
      if (at(a).skeleton != at(b).skeleton) return at(a).skeleton < at(b).skeleton;
      return freer(a, b);
    });
    const auto same = [&](CellId a, CellId b) { return at(a).skeleton == at(b).skeleton; };
    found_.erase(std::unique(found_.begin(), found_.end(), same), found_.end());
    std::sort(found_.begin(), found_.end());
  }
  if (found_.size() > limits_.threads)
    throw GrammarError(
        fmt::format("grammar: a text can be read in more than {} ways; make it less ambiguous or raise "
                    "GrammarLimits::threads",
                    limits_.threads));
  const bool accepts = std::exchange(found_end_, false);
  std::vector<CellId> list = std::move(found_);
  found_.clear();
  if (list.empty() && !accepts) return kDead;
  const std::uint64_t hash = hash_of_list(list, accepts);
  const auto [begin, end] = known_states_.equal_range(hash);
  for (auto known = begin; known != end; ++known) {
    const std::span<const CellId> other = threads(known->second);
    if (this->accepts(known->second) == accepts && std::equal(other.begin(), other.end(), list.begin(), list.end()))
      return known->second;
  }
  if (states_.size() >= limits_.states || thread_pool_.size() > 64 * limits_.states)
    throw GrammarError(
        fmt::format("grammar: texts reach more than {} of its states; make it simpler or raise "
                    "GrammarLimits::states",
                    limits_.states));
  const auto state = static_cast<State>(states_.size());
  states_.push_back({thread_pool_.size(), static_cast<std::uint32_t>(list.size()), accepts, -1, -1});
  thread_pool_.insert(thread_pool_.end(), list.begin(), list.end());
  known_states_.emplace(hash, state);
  return state;
}

std::span<const ByteAutomaton::CellId> ByteAutomaton::threads(State state) const {
  const StateInfo& info = states_[static_cast<std::size_t>(state)];
  return {thread_pool_.data() + info.first, info.threads};
}

ByteAutomaton::State ByteAutomaton::complete() {
  found_.clear();
  found_end_ = true;
  return take_state();
}

ByteAutomaton::State ByteAutomaton::step(State state, unsigned char byte) {
  const std::int32_t row = states_[static_cast<std::size_t>(state)].row;
  if (row >= 0) return step_in_row(row, state, byte);
  found_.clear();
  found_end_ = false;
  rests_.clear();
  begin_visit();
  const std::size_t count = threads(state).size();
  spend(1 + count);
  for (std::size_t i = 0; i < count; ++i) {
    const CellId head = threads(state)[i];
    if (first_[static_cast<std::size_t>(cells_[static_cast<std::size_t>(head)].expression)].has(byte))
      match(head, byte, rests_);
  }
  begin_visit();
  for (const CellId rest : rests_) add_threads(close_open(rest));
  return take_state();
}

std::int32_t ByteAutomaton::row(State state) {
  StateInfo& info = states_[static_cast<std::size_t>(state)];
  if (info.row >= 0) return info.row;
  const auto row = static_cast<std::int32_t>(rows_.size());
  rows_.push_back(state);
  transitions_.resize(transitions_.size() + 256, kUnknown);
  return info.row = row;
}

ByteAutomaton::State ByteAutomaton::fill(std::int32_t row, State state, unsigned char byte) {
  // Without a row, step() computes.
  states_[static_cast<std::size_t>(state)].row = -1;
  State next = kDead;
  try {
    next = step(state, byte);
  } catch (...) {
    states_[static_cast<std::size_t>(state)].row = row;
    throw;
  }
  states_[static_cast<std::size_t>(state)].row = row;
  return transitions_[static_cast<std::size_t>(row) * 256 + byte] = next;
}

std::int32_t ByteAutomaton::horizon_class(State state) {
  StateInfo& info = states_[static_cast<std::size_t>(state)];
  if (info.horizon >= 0) return info.horizon;
  std::vector<CellId> list;
  for (const CellId thread : threads(state)) list.push_back(cells_[static_cast<std::size_t>(thread)].horizon);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  if (info.accepts) list.push_back(-1);
  const std::uint64_t hash = hash_of_list(list, info.accepts);
  const auto [begin, end] = known_classes_.equal_range(hash);
  for (auto known = begin; known != end; ++known)
    if (classes_[static_cast<std::size_t>(known->second)] == list) return info.horizon = known->second;
  const auto id = static_cast<std::int32_t>(classes_.size());
  classes_.push_back(std::move(list));
  known_classes_.emplace(hash, id);
  return info.horizon = id;
}

}  // namespace etna::models
