#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <etna/data/corpus.h>

namespace etna::data {

/// A generated corpus that needs no file: a grammar writes WikiText's markup around articles on invented towns, rivers,
/// composers, ships, birds and buildings. About 120,000 / 8,000 / 8,000 tokens. A seed gives the same text on every
/// machine.
Corpus demo_corpus(std::uint64_t seed = 1);

/// Generates articles in WikiText's markup until they have at least `tokens` tokens. demo_corpus() uses it; call it for
/// other sizes.
std::string demo_text(std::uint64_t seed, std::size_t tokens);

}  // namespace etna::data
