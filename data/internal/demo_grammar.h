#pragma once

#include <span>
#include <string_view>

/// The tables behind the embedded corpus: words, and articles written as templates.
///
/// In a template `{a|b|c}` is a choice. `~list` draws from a list each time; `$list` draws once for the whole article
/// (`$list2` is a second such draw, different from the first). Entries of a list are templates themselves. The article
/// sets $he $He $his $His $him, and the years $year < $year2 < $year3.
namespace etna::data::demo {

struct List {
  std::string_view name;
  std::span<const std::string_view> entries;
};

/// A paragraph takes at least `least` sentences of its pool, in the order of the pool.
struct Section {
  std::string_view title;  ///< empty for the lead
  std::size_t least;
  std::span<const std::string_view> sentences;
};

struct Article {
  std::string_view title;
  std::span<const Section> sections;
};

std::span<const List> lists();
std::span<const Article> articles();

}  // namespace etna::data::demo
