#include "corpus.h"

#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <etna/data/corpora/prepared_corpus.h>
#include <etna/data/demo_corpus.h>
#include <etna/data/tokenizers/word_tokenizer.h>
#include <etna/device/error.h>
#include <etna/train/progress.h>
#include <etna/train/terminal_text.h>

namespace wikitext {

using namespace etna;

namespace {

Corpus of_words(data::Corpus text) {
  return {std::make_shared<data::WordTokenizer>(std::move(text.vocab)), std::move(text.train), std::move(text.valid),
          std::move(text.test), std::move(text.source)};
}

Corpus of_prepared(const std::string& folder) {
  const data::PreparedCorpus prepared = data::open_prepared_corpus(folder);
  const auto ids = [](const data::PreparedSplit& split) {
    return TokenIds(split.tokens, split.text.words_and_lines());
  };
  return {prepared.tokenizer, ids(prepared.train), ids(prepared.valid), ids(prepared.test), folder};
}

}  // namespace

std::int64_t TokenIds::size() const {
  if (const auto* file = std::get_if<data::TokenFile>(&ids_)) return file->size();
  return static_cast<std::int64_t>(std::get<0>(ids_).size());
}

data::StreamBatches TokenIds::streams(std::int64_t batch, std::int64_t seq) const {
  if (size() == 0)
    throw FormatError(
        "the corpus has an empty split; prepare it with shares for --valid and --test, or train with --no-eval");
  if (const auto* file = std::get_if<data::TokenFile>(&ids_)) return {*file, batch, seq};
  return {std::span<const std::int32_t>(std::get<0>(ids_)), batch, seq};
}

double word_perplexity(double loss, const TokenIds& ids) {
  return std::exp(loss * static_cast<double>(ids.size()) / static_cast<double>(ids.words()));
}

std::string perplexity_text(const Corpus& corpus, double valid_loss, double test_loss) {
  const std::string tokens = fmt::format("validation {:.2f}, test {:.2f}", std::exp(valid_loss), std::exp(test_loss));
  if (corpus.of_words()) return tokens;
  return fmt::format("{} a token; validation {:.2f}, test {:.2f} a word", tokens,
                     word_perplexity(valid_loss, corpus.valid), word_perplexity(test_loss, corpus.test));
}

bool is_embedded(const DataOptions& options) {
  return options.text.empty() && options.data.empty() && std::getenv("ETNA_DATA") == nullptr;
}

Corpus find_corpus(const DataOptions& options) {
  std::string folder = options.data;
  if (const char* variable = std::getenv("ETNA_DATA"); folder.empty() && options.text.empty() && variable != nullptr)
    folder = variable;
  if (!options.text.empty() && data::holds_prepared_corpus(options.text))
    throw FormatError(fmt::format("{}: holds a prepared corpus; name it by --data", options.text));
  Corpus corpus = !options.text.empty()                         ? of_words(data::read_text(options.text))
                  : folder.empty()                              ? of_words(data::demo_corpus())
                  : data::holds_prepared_corpus(folder.c_str()) ? of_prepared(folder)
                                                                : of_words(data::read_wikitext(folder));
  using training::with_commas;
  fmt::print("corpus: {}: {} training, {} validation, {} test tokens, {} {}\n", training::printable(corpus.source),
             with_commas(corpus.train.size()), with_commas(corpus.valid.size()), with_commas(corpus.test.size()),
             with_commas(corpus.vocabulary()), corpus.of_words() ? "words" : "tokens in the vocabulary");
  return corpus;
}

}  // namespace wikitext
