#include "corpus.h"

#include <cstdlib>

#include <fmt/format.h>

#include <etna/data/demo_corpus.h>

#include "report.h"

namespace wikitext {

using etna::data::Corpus;

Corpus find_corpus(const DataOptions& options) {
  std::string folder = options.data;
  if (const char* variable = std::getenv("ETNA_DATA"); folder.empty() && options.text.empty() && variable != nullptr)
    folder = variable;
  Corpus corpus = !options.text.empty() ? etna::data::read_text(options.text)
                  : !folder.empty()     ? etna::data::read_wikitext(folder)
                                        : etna::data::demo_corpus();
  fmt::print("corpus: {}: {} training, {} validation, {} test tokens, {} words\n", corpus.source,
             with_commas(static_cast<std::int64_t>(corpus.train.size())),
             with_commas(static_cast<std::int64_t>(corpus.valid.size())),
             with_commas(static_cast<std::int64_t>(corpus.test.size())),
             with_commas(static_cast<std::int64_t>(corpus.vocab.size())));
  return corpus;
}

}  // namespace wikitext
