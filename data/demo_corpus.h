#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <etna/data/corpus.h>

namespace etna::data {

/// The corpus that needs no file: WikiText's markup around articles on invented towns, rivers, composers, ships, birds
/// and buildings, written by a grammar. About 120,000 / 8,000 / 8,000 tokens. A seed gives the same text on every
/// machine.
Corpus demo_corpus(std::uint64_t seed = 1);

/// Articles in WikiText's markup until they hold at least `tokens` tokens. Source of demo_corpus(), for other sizes.
std::string demo_text(std::uint64_t seed, std::size_t tokens);

}  // namespace etna::data
