#include <etna/models/grammar/internal/regex.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/models/grammar/internal/regex_reader.h>
#include <etna/models/grammar/internal/source_text.h>

namespace etna::models {
namespace {

constexpr std::size_t kMostVariants = 1000;

std::uint64_t add_lengths(std::uint64_t a, std::uint64_t b) {
  return a > Regex::Lengths::kUnbounded - b ? Regex::Lengths::kUnbounded : a + b;
}

std::uint64_t times_lengths(std::uint64_t a, std::uint64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > Regex::Lengths::kUnbounded / b ? Regex::Lengths::kUnbounded : a * b;
}

}  // namespace

Regex::Regex(std::string_view source, const std::string& what, const GrammarLimits& limits) : what_(what) {
  check_source(source, what.c_str(), limits);
  const int root = RegexReader(source, *this, limits).run();
  variants_ = variants(root, 0);
}

/// The ways through a node, with ^ and $ only at the edges.
std::vector<Regex::Variant> Regex::variants(int node, int depth) const {
  const Node& at = nodes_[static_cast<std::size_t>(node)];
  if (!at.anchors) return {{false, false, {node}}};
  switch (at.kind) {
    case Kind::begin:
      return {{true, false, {}}};
    case Kind::end:
      return {{false, true, {}}};
    case Kind::sequence:
      return split_anchors({false, false, at.parts}, depth + 1);
    case Kind::choice: {
      std::vector<Variant> all;
      for (const int part : at.parts) {
        for (Variant& variant : variants(part, depth + 1)) all.push_back(std::move(variant));
        if (all.size() > kMostVariants)
          throw GrammarError(fmt::format("{}: more than {} alternatives with ^ or $; put the anchors outside of groups",
                                         what_, kMostVariants));
      }
      return all;
    }
    default:
      throw GrammarError(fmt::format("{}: ^ or $ inside of what repeats is not supported; put it outside", what_));
  }
}

std::vector<Regex::Variant> Regex::split_anchors(Variant variant, int depth) const {
  if (depth > 500) throw GrammarError(fmt::format("{}: it has too many anchors", what_));
  const auto anchored = [&](int part) { return nodes_[static_cast<std::size_t>(part)].anchors; };
  const auto first = std::find_if(variant.parts.begin(), variant.parts.end(), anchored);
  if (first == variant.parts.end()) return {std::move(variant)};
  const bool is_first = first == variant.parts.begin(), is_last = first + 1 == variant.parts.end();
  std::vector<Variant> all;
  for (const Variant& inner : variants(*first, depth + 1)) {
    if ((inner.begin && !is_first) || (inner.end && !is_last)) {
      // "^^" and "$$" say the same twice.
      const bool twice = inner.parts.empty() && inner.end && std::all_of(first + 1, variant.parts.end(), [&](int p) {
                           return nodes_[static_cast<std::size_t>(p)].kind == Kind::end;
                         });
      if (!twice)
        throw GrammarError(
            fmt::format("{}: ^ is supported only at the start and $ only at the end of an alternative", what_));
    }
    Variant whole{variant.begin || inner.begin, variant.end || inner.end, {}};
    whole.parts.assign(variant.parts.begin(), first);
    whole.parts.insert(whole.parts.end(), inner.parts.begin(), inner.parts.end());
    whole.parts.insert(whole.parts.end(), first + 1, variant.parts.end());
    for (Variant& more : split_anchors(std::move(whole), depth + 1)) all.push_back(std::move(more));
    if (all.size() > kMostVariants)
      throw GrammarError(fmt::format("{}: more than {} alternatives with ^ or $; put the anchors outside of groups",
                                     what_, kMostVariants));
  }
  return all;
}

Expressions::Id Regex::write(int node, Expressions& expressions, const Write& write_set) const {
  const Node& at = nodes_[static_cast<std::size_t>(node)];
  switch (at.kind) {
    case Kind::set:
      return write_set(at.set);
    case Kind::sequence: {
      Expressions::Id id = expressions.empty();
      for (std::size_t i = at.parts.size(); i-- > 0;)
        id = expressions.sequence(write(at.parts[i], expressions, write_set), id);
      return id;
    }
    case Kind::choice: {
      std::vector<Expressions::Id> all;
      for (const int part : at.parts) all.push_back(write(part, expressions, write_set));
      return expressions.choice(all);
    }
    case Kind::repeat:
      return expressions.repeat(write(at.parts[0], expressions, write_set), at.min, at.max);
    default:
      return expressions.empty();
  }
}

Expressions::Id Regex::compile(Expressions& expressions, const Write& write_set, bool whole) const {
  const Expressions::Id any = expressions.repeat(write_set(CodePoints::all()), 0, Expressions::kUnbounded);
  std::vector<Expressions::Id> all;
  for (const Variant& variant : variants_) {
    Expressions::Id id = whole || variant.end ? expressions.empty() : any;
    for (std::size_t i = variant.parts.size(); i-- > 0;)
      id = expressions.sequence(write(variant.parts[i], expressions, write_set), id);
    all.push_back(whole || variant.begin ? id : expressions.sequence(any, id));
  }
  return expressions.choice(all);
}

Regex::Lengths Regex::lengths_of(int node) const {
  const Node& at = nodes_[static_cast<std::size_t>(node)];
  if (at.kind == Kind::set) return {1, 1};
  Lengths all{at.kind == Kind::choice ? Lengths::kUnbounded : 0, 0};
  for (const int part : at.parts) {
    const Lengths one = lengths_of(part);
    if (at.kind == Kind::choice) {
      all = {std::min(all.min, one.min), std::max(all.max, one.max)};
    } else if (at.kind == Kind::repeat) {
      const std::uint64_t times = at.max == Expressions::kUnbounded ? Lengths::kUnbounded : at.max;
      all = {times_lengths(one.min, at.min), times_lengths(one.max, times)};
    } else {
      all = {add_lengths(all.min, one.min), add_lengths(all.max, one.max)};
    }
  }
  return all;
}

Regex::Lengths Regex::lengths(bool whole) const {
  Lengths all{Lengths::kUnbounded, 0};
  for (const Variant& variant : variants_) {
    Lengths one;
    for (const int part : variant.parts) {
      const Lengths more = lengths_of(part);
      one = {add_lengths(one.min, more.min), add_lengths(one.max, more.max)};
    }
    if (!whole && !(variant.begin && variant.end)) one.max = Lengths::kUnbounded;
    all = {std::min(all.min, one.min), std::max(all.max, one.max)};
  }
  return all;
}

std::optional<Expressions::Id> Regex::repeat_between(Expressions& expressions, const Write& write_set,
                                                     std::uint64_t min, std::uint64_t max) const {
  if (variants_.size() != 1) return std::nullopt;
  const Variant& variant = variants_[0];
  if (!variant.begin || !variant.end || variant.parts.size() != 1) return std::nullopt;
  const Node* node = &nodes_[static_cast<std::size_t>(variant.parts[0])];
  while (node->kind == Kind::sequence && node->parts.size() == 1)
    node = &nodes_[static_cast<std::size_t>(node->parts[0])];
  if (node->kind != Kind::repeat) return std::nullopt;
  const Node& body = nodes_[static_cast<std::size_t>(node->parts[0])];
  if (body.kind != Kind::set) return std::nullopt;
  min = std::max<std::uint64_t>(min, node->min);
  if (node->max != Expressions::kUnbounded) max = std::min<std::uint64_t>(max, node->max);
  if (max < min) return expressions.never();
  if (min > Expressions::kMostRepeats) return std::nullopt;
  const std::uint32_t last =
      max > Expressions::kMostRepeats ? Expressions::kUnbounded : static_cast<std::uint32_t>(max);
  return expressions.repeat(write_set(body.set), static_cast<std::uint32_t>(min), last);
}

}  // namespace etna::models
