#include <etna/data/tokenizers/pieces/internal/piece_splits.h>

#include <algorithm>
#include <utility>

#include <etna/data/tokenizers/internal/splits/regex_splitter.h>
#include <etna/data/tokenizers/internal/splits/split_scanners.h>
#include <etna/data/tokenizers/pieces/internal/space_symbol.h>

namespace etna::data {
namespace {

using Pieces = std::vector<std::string>;

struct Part {
  std::size_t begin, end;
  bool match;
};

/// The parts of a text that are kept, given the matches in order.
std::vector<Part> parts(std::size_t size, const std::vector<RegexSplitter::Match>& matches, SplitBehavior behavior,
                        bool invert) {
  std::vector<Part> all;
  std::size_t at = 0;
  for (const RegexSplitter::Match& match : matches) {
    if (match.first > at) all.push_back({at, match.first, invert});
    all.push_back({match.first, match.second, !invert});
    at = match.second;
  }
  if (at < size) all.push_back({at, size, invert});
  if (behavior == SplitBehavior::isolated) return all;
  std::vector<Part> kept;
  const auto add = [&](const Part& part, bool join) {
    if (join && !kept.empty())
      kept.back().end = part.end;
    else
      kept.push_back(part);
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool before = i > 0 && all[i - 1].match;
    switch (behavior) {
      case SplitBehavior::removed:
        if (!all[i].match) kept.push_back(all[i]);
        break;
      case SplitBehavior::contiguous:
        add(all[i], i > 0 && before == all[i].match);
        break;
      case SplitBehavior::merged_with_previous:
        add(all[i], all[i].match && !before);
        break;
      // A match directly followed by another match is a piece of its own.
      case SplitBehavior::merged_with_next:
        add(all[i], i > 0 && before && !all[i].match);
        break;
      case SplitBehavior::isolated:
        break;
    }
  }
  return kept;
}

void add_pieces(std::string_view text, const std::vector<RegexSplitter::Match>& matches, SplitBehavior behavior,
                bool invert, Pieces& pieces) {
  for (const Part& part : parts(text.size(), matches, behavior, invert))
    pieces.emplace_back(text.substr(part.begin, part.end - part.begin));
}

}  // namespace

TokenizerPlan::Split regex_split(std::string_view pattern, SplitBehavior behavior, bool invert,
                                 const std::string& name) {
  if (const SplitScanner scanner = split_scanner(pattern)) {
    // Matched or not, every part is a piece.
    if (behavior == SplitBehavior::isolated)
      return [scanner](std::string_view text, bool, Pieces& pieces) {
        for_each_part(text, scanner, [&](std::string_view part, bool) { pieces.emplace_back(part); });
      };
    return [scanner, behavior, invert](std::string_view text, bool, Pieces& pieces) {
      add_pieces(text, scanner_matches(scanner, text), behavior, invert, pieces);
    };
  }
  const auto splitter = std::make_shared<const RegexSplitter>(std::string(pattern), name);
  return [splitter, behavior, invert](std::string_view text, bool, Pieces& pieces) {
    add_pieces(text, splitter->matches(text), behavior, invert, pieces);
  };
}

TokenizerPlan::Split regex_splits(const std::vector<std::string>& patterns, const std::string& name) {
  std::vector<TokenizerPlan::Split> splits;
  for (const std::string& pattern : patterns)
    splits.push_back(regex_split(pattern, SplitBehavior::isolated, false, name));
  return sequence(std::move(splits));
}

TokenizerPlan::Split metaspace_split(const std::string& replacement, SpacePrefix prefix, bool split) {
  return [replacement, prefix, split](std::string_view text, bool start, Pieces& pieces) {
    std::string spaced = replace_all(text, " ", replacement);
    const bool wanted = prefix == SpacePrefix::always || (prefix == SpacePrefix::first && start);
    if (wanted && spaced.compare(0, replacement.size(), replacement) != 0) spaced.insert(0, replacement);
    if (!split) return pieces.push_back(std::move(spaced));
    for (std::size_t begin = 0; begin < spaced.size();) {
      const std::size_t end = std::min(spaced.find(replacement, begin + 1), spaced.size());
      pieces.push_back(spaced.substr(begin, end - begin));
      begin = end;
    }
  };
}

TokenizerPlan::Split sequence(std::vector<TokenizerPlan::Split> splits) {
  if (splits.size() == 1) return std::move(splits[0]);
  return [splits = std::move(splits)](std::string_view text, bool start, Pieces& pieces) {
    Pieces now{std::string(text)};
    for (const TokenizerPlan::Split& split : splits) {
      Pieces next;
      for (std::size_t i = 0; i < now.size(); ++i)
        if (!now[i].empty()) split(now[i], start && i == 0, next);
      now = std::move(next);
    }
    for (std::string& piece : now) pieces.push_back(std::move(piece));
  };
}

}  // namespace etna::data
