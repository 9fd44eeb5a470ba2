#include "corpus.h"

#include <cstdlib>

#include <fmt/format.h>

#include <etna/data/demo_corpus.h>

#include <etna/train/progress.h>

namespace wikitext {

using etna::data::Corpus;

bool is_embedded(const DataOptions& options) {
  return options.text.empty() && options.data.empty() && std::getenv("ETNA_DATA") == nullptr;
}

Corpus find_corpus(const DataOptions& options) {
  std::string folder = options.data;
  if (const char* variable = std::getenv("ETNA_DATA"); folder.empty() && options.text.empty() && variable != nullptr)
    folder = variable;
  Corpus corpus = !options.text.empty() ? etna::data::read_text(options.text)
                  : !folder.empty()     ? etna::data::read_wikitext(folder)
                                        : etna::data::demo_corpus();
  fmt::print("corpus: {}: {} training, {} validation, {} test tokens, {} words\n", corpus.source,
             etna::training::with_commas(static_cast<std::int64_t>(corpus.train.size())),
             etna::training::with_commas(static_cast<std::int64_t>(corpus.valid.size())),
             etna::training::with_commas(static_cast<std::int64_t>(corpus.test.size())),
             etna::training::with_commas(static_cast<std::int64_t>(corpus.vocab.size())));
  return corpus;
}

}  // namespace wikitext
