#include <etna/models/grammar/internal/expressions.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <etna/models/grammar/grammar.h>

namespace etna::models {
namespace {

using ExpressionId = Expressions::Id;
using ExpressionKind = Expressions::Kind;

std::string expression_key(const Expressions::Node& node, const void* bytes, std::size_t size) {
  std::string key(1 + sizeof node.min + sizeof node.max + size, '\0');
  key[0] = static_cast<char>(node.kind);
  std::memcpy(key.data() + 1, &node.min, sizeof node.min);
  std::memcpy(key.data() + 1 + sizeof node.min, &node.max, sizeof node.max);
  if (size > 0) std::memcpy(key.data() + 1 + sizeof node.min + sizeof node.max, bytes, size);
  return key;
}

/// Calls back with the bytes of ranges of equal length that differ in whole trailing bytes: each is a sequence of byte
/// ranges.
template <typename Emit>
void split_utf8(std::uint32_t first, std::uint32_t last, Emit&& emit) {
  static constexpr std::uint32_t kEnds[] = {0x7F, 0x7FF, 0xFFFF, CodePoints::kLast};
  for (int length = 1; length <= 4; ++length) {
    const std::uint32_t end = kEnds[length - 1], begin = length == 1 ? 0 : kEnds[length - 2] + 1;
    if (first > end || last < begin) continue;
    std::uint32_t at = std::max(first, begin);
    const std::uint32_t stop = std::min(last, end);
    while (at <= stop) {
      // The longest aligned run from `at`: bytes after the one that varies take all their values.
      std::uint32_t run_end = at;
      for (int free = length - 1; free >= 0; --free) {
        const std::uint32_t block = std::uint32_t{1} << 6 * free, above = block * (length - free == 1 ? 256 : 64);
        if (at % block != 0 || at + (block - 1) > stop) continue;
        run_end = std::min(at / above * above + (above - 1), stop + 1 >= block ? (stop + 1) / block * block - 1 : 0);
        break;
      }
      emit(at, run_end, length);
      at = run_end + 1;
    }
  }
}

unsigned utf8_byte(std::uint32_t point, int length, int index) {
  static constexpr unsigned kLead[] = {0, 0xC0, 0xE0, 0xF0};
  const std::uint32_t bits = point >> 6 * (length - 1 - index);
  return index == 0 ? kLead[length - 1] | bits : 0x80 | (bits & 0x3F);
}

}  // namespace

Expressions::Expressions(std::size_t nodes) : limit_(std::max<std::size_t>(nodes, 2)) {
  add({}, expression_key({}, nullptr, 0));
  Node never;
  never.kind = Kind::never;
  add(never, expression_key(never, nullptr, 0));
}

Expressions::Id Expressions::add(const Node& node, std::string key) {
  const auto [found, added] = known_.try_emplace(std::move(key), static_cast<Id>(nodes_.size()));
  if (!added) return found->second;
  if (nodes_.size() >= limit_)
    throw GrammarError(
        fmt::format("grammar: it takes more than {} nodes; make it smaller or raise "
                    "GrammarLimits::nodes",
                    limit_));
  nodes_.push_back(node);
  return found->second;
}

Expressions::Id Expressions::bytes(const ByteSet& set) {
  if (set.words == std::array<std::uint64_t, 4>{}) return never();
  Node node;
  node.kind = Kind::bytes;
  const std::size_t before = nodes_.size();
  const Id id = add(node, expression_key(node, set.words.data(), sizeof set.words));
  if (nodes_.size() > before) {
    nodes_.back().first = static_cast<Id>(sets_.size());
    sets_.push_back(set);
  }
  return id;
}

Expressions::Id Expressions::text(std::string_view text) {
  Id id = empty();
  for (std::size_t i = text.size(); i-- > 0;) {
    ByteSet set;
    const auto byte = static_cast<unsigned char>(text[i]);
    set.add(byte, byte);
    id = sequence(bytes(set), id);
  }
  return id;
}

Expressions::Id Expressions::sequence(Id first, Id second) {
  if (first == never() || second == never()) return never();
  if (first == empty()) return second;
  if (second == empty()) return first;
  // Nested to the right, so that what remains is shared.
  std::vector<Id> parts;
  while ((*this)[first].kind == Kind::sequence) {
    parts.push_back((*this)[first].first);
    first = (*this)[first].second;
  }
  parts.push_back(first);
  Id id = second;
  for (std::size_t i = parts.size(); i-- > 0;) {
    const Node node{Kind::sequence, parts[i], id, 0, 0};
    const Id both[] = {parts[i], id};
    id = add(node, expression_key(node, both, sizeof both));
  }
  return id;
}

Expressions::Id Expressions::sequence(std::initializer_list<Id> parts) {
  Id id = empty();
  for (auto part = std::rbegin(parts); part != std::rend(parts); ++part) id = sequence(*part, id);
  return id;
}

Expressions::Id Expressions::choice(std::span<const Id> alternatives) {
  std::vector<Id> all;
  ByteSet single;
  bool any_single = false;
  for (const Id id : alternatives) {
    const Node& node = (*this)[id];
    if (node.kind == Kind::never) continue;
    // Long lists are shared rather than copied.
    if (node.kind == Kind::choice && node.second - node.first <= 4) {
      const auto inner = this->alternatives(node);
      all.insert(all.end(), inner.begin(), inner.end());
    } else {
      all.push_back(id);
    }
  }
  std::erase_if(all, [&](Id id) {
    const Node& node = (*this)[id];
    if (node.kind != Kind::bytes) return false;
    for (std::size_t i = 0; i < 4; ++i) single.words[i] |= set(node).words[i];
    return any_single = true;
  });
  if (any_single) all.push_back(bytes(single));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.empty()) return never();
  if (all.size() == 1) return all[0];
  if (alternatives_.size() + all.size() > 16 * limit_)
    throw GrammarError(
        fmt::format("grammar: it has more than {} alternatives; make it smaller or raise "
                    "GrammarLimits::nodes",
                    16 * limit_));
  Node node;
  node.kind = Kind::choice;
  const std::size_t before = nodes_.size();
  const Id id = add(node, expression_key(node, all.data(), all.size() * sizeof(Id)));
  if (nodes_.size() > before) {
    nodes_.back().first = static_cast<Id>(alternatives_.size());
    alternatives_.insert(alternatives_.end(), all.begin(), all.end());
    nodes_.back().second = static_cast<Id>(alternatives_.size());
  }
  return id;
}

Expressions::Id Expressions::repeat(Id body, std::uint32_t min, std::uint32_t max) {
  if (max == 0 || body == empty()) return empty();
  if (body == never()) return min == 0 ? empty() : never();
  if (min == 1 && max == 1) return body;
  const Node node{Kind::repeat, body, 0, min, max};
  return add(node, expression_key(node, &body, sizeof body));
}

Expressions::Id Expressions::characters(const CodePoints& set) {
  CodePoints characters = set;
  characters.remove(0xD800, 0xDFFF);
  std::vector<Id> all;
  for (const auto& [first, last] : characters.ranges()) {
    split_utf8(first, last, [&](std::uint32_t from, std::uint32_t to, int length) {
      Id id = empty();
      for (int i = length - 1; i >= 0; --i) {
        ByteSet byte;
        byte.add(utf8_byte(from, length, i), utf8_byte(to, length, i));
        id = sequence(bytes(byte), id);
      }
      all.push_back(id);
    });
  }
  // Characters that differ in the first byte only share an alternative.
  std::unordered_map<Id, ByteSet> leads;
  std::vector<Id> rests;
  for (const Id id : all) {
    const Node node = (*this)[id];
    const bool more = node.kind == Kind::sequence;
    const Id rest = more ? node.second : empty();
    const auto [found, added] = leads.try_emplace(rest);
    if (added) rests.push_back(rest);
    const ByteSet& lead = this->set(more ? (*this)[node.first] : node);
    for (std::size_t i = 0; i < 4; ++i) found->second.words[i] |= lead.words[i];
  }
  std::vector<Id> merged;
  for (const Id rest : rests) merged.push_back(sequence(bytes(leads[rest]), rest));
  return choice(merged);
}

Expressions::Id Expressions::rule(std::string name) {
  Node node;
  node.kind = Kind::rule;
  node.first = static_cast<Id>(bodies_.size());
  bodies_.push_back(never());
  names_.push_back(std::move(name));
  return add(node, expression_key(node, &node.first, sizeof node.first));
}

void Expressions::define(Id rule, Id body) { bodies_[static_cast<std::size_t>((*this)[rule].first)] = body; }

std::span<const Expressions::Id> Expressions::alternatives(const Node& node) const {
  return {alternatives_.data() + node.first, static_cast<std::size_t>(node.second - node.first)};
}

/// Spreads what holds for parts to the expressions that have them.
template <typename Both>
std::vector<bool> Expressions::propagate(std::vector<bool> holds, Both sequence_holds) const {
  std::vector<std::vector<Id>> users(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const auto uses = [&](Id part) { users[static_cast<std::size_t>(part)].push_back(static_cast<Id>(i)); };
    if (node.kind == Kind::sequence) {
      uses(node.first);
      uses(node.second);
    }
    if (node.kind == Kind::repeat) uses(node.first);
    if (node.kind == Kind::rule) uses(body(node));
    if (node.kind == Kind::choice)
      for (const Id part : alternatives(node)) uses(part);
  }
  std::vector<Id> changed;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (holds[i]) changed.push_back(static_cast<Id>(i));
  while (!changed.empty()) {
    const Id id = changed.back();
    changed.pop_back();
    for (const Id user : users[static_cast<std::size_t>(id)]) {
      const Node& node = (*this)[user];
      if (holds[static_cast<std::size_t>(user)]) continue;
      if (node.kind == Kind::sequence &&
          !sequence_holds(holds[static_cast<std::size_t>(node.first)], holds[static_cast<std::size_t>(node.second)]))
        continue;
      holds[static_cast<std::size_t>(user)] = true;
      changed.push_back(user);
    }
  }
  return holds;
}

std::vector<bool> Expressions::nullable() const {
  std::vector<bool> holds(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    holds[i] = nodes_[i].kind == Kind::empty || (nodes_[i].kind == Kind::repeat && nodes_[i].min == 0);
  return propagate(std::move(holds), [](bool a, bool b) { return a && b; });
}

std::vector<bool> Expressions::productive(const ByteSet& writable) const {
  std::vector<bool> holds(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    holds[i] = node.kind == Kind::empty || (node.kind == Kind::repeat && node.min == 0);
    if (node.kind == Kind::bytes)
      for (std::size_t word = 0; word < 4; ++word)
        holds[i] = holds[i] || (set(node).words[word] & writable.words[word]) != 0;
  }
  return propagate(std::move(holds), [](bool a, bool b) { return a && b; });
}

std::string Expressions::left_recursive(const std::vector<bool>& nullable, std::vector<Id>& order) const {
  enum : std::uint8_t { fresh, open, done };
  std::vector<std::uint8_t> state(nodes_.size(), fresh);
  std::vector<std::pair<Id, std::size_t>> path;  // an expression and how many of its parts were visited
  const auto part = [&](Id id, std::size_t n) -> Id {
    const Node& node = (*this)[id];
    switch (node.kind) {
      case Kind::sequence:
        if (n == 0) return node.first;
        return n == 1 && nullable[static_cast<std::size_t>(node.first)] ? node.second : -1;
      case Kind::choice:
        return n < alternatives(node).size() ? alternatives(node)[n] : -1;
      case Kind::repeat:
        return n == 0 ? node.first : -1;
      case Kind::rule:
        return n == 0 ? body(node) : -1;
      default:
        return -1;
    }
  };
  for (std::size_t next = 0; next < nodes_.size(); ++next) {
    if (state[next] != fresh) continue;
    state[next] = open;
    path.emplace_back(static_cast<Id>(next), 0);
    while (!path.empty()) {
      const Id id = path.back().first, child = part(id, path.back().second++);
      if (child < 0) {
        state[static_cast<std::size_t>(id)] = done;
        order.push_back(id);
        path.pop_back();
        continue;
      }
      if (state[static_cast<std::size_t>(child)] == open) {
        for (auto at = path.rbegin(); at != path.rend(); ++at) {
          const Node& node = (*this)[at->first];
          if (node.kind == Kind::rule) return names_[static_cast<std::size_t>(node.first)];
          if (at->first == child) break;
        }
      }
      if (state[static_cast<std::size_t>(child)] != fresh) continue;
      state[static_cast<std::size_t>(child)] = open;
      path.emplace_back(child, 0);
    }
  }
  return "";
}

std::vector<ByteSet> Expressions::first_bytes(const std::vector<bool>& nullable, const std::vector<Id>& order) const {
  std::vector<ByteSet> first(nodes_.size());
  for (const Id id : order) {
    const Node& node = (*this)[id];
    ByteSet& own = first[static_cast<std::size_t>(id)];
    const auto add = [&](Id part) {
      for (std::size_t i = 0; i < own.words.size(); ++i) own.words[i] |= first[static_cast<std::size_t>(part)].words[i];
    };
    if (node.kind == Kind::bytes) own = set(node);
    if (node.kind == Kind::sequence || node.kind == Kind::repeat) add(node.first);
    if (node.kind == Kind::sequence && nullable[static_cast<std::size_t>(node.first)]) add(node.second);
    if (node.kind == Kind::rule) add(body(node));
    if (node.kind == Kind::choice)
      for (const Id part : alternatives(node)) add(part);
  }
  return first;
}

}  // namespace etna::models
