#pragma once

#include <string>

#include <etna/data/corpora/prepared_corpus.h>

namespace etna::cli {

/// "tokenizer: bpe, 8,192 tokens, hash 0123456789abcdef"
std::string tokenizer_line(const data::Tokenizer& tokenizer);

/// A line a split: tokens, words, lines.
std::string split_table(const data::PreparedCorpus& corpus);

}  // namespace etna::cli
