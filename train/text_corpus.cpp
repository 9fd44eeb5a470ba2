#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <etna/data/corpora/prepared_corpus.h>
#include <etna/data/corpus.h>
#include <etna/data/tokenizers/word_tokenizer.h>
#include <etna/device/error.h>
#include <etna/train/progress.h>
#include <etna/train/text_training.h>

namespace etna::training {
namespace {

TextCorpus corpus_of_words(data::Corpus text) {
  const auto split = [](std::vector<std::int32_t>& ids) {
    const auto words = static_cast<std::int64_t>(ids.size());
    return TextSplit{.ids = std::move(ids), .words = words};
  };
  return {.tokenizer = std::make_shared<data::WordTokenizer>(std::move(text.vocab)),
          .train = split(text.train),
          .valid = split(text.valid),
          .test = split(text.test),
          .source = std::move(text.source)};
}

TextCorpus corpus_of_prepared(const std::string& folder) {
  const data::PreparedCorpus prepared = data::open_prepared_corpus(folder);
  const auto split = [](const data::PreparedSplit& s) {
    return TextSplit{.file = s.tokens, .words = s.text.words_and_lines()};
  };
  return {.tokenizer = prepared.tokenizer,
          .train = split(prepared.train),
          .valid = split(prepared.valid),
          .test = split(prepared.test),
          .source = folder};
}

}  // namespace

data::StreamBatches TextSplit::streams(std::int64_t batch, std::int64_t seq) const {
  if (size() == 0)
    throw FormatError(
        "the corpus has an empty split; prepare it with shares for --valid and --test, or train with --no-eval");
  return file ? data::StreamBatches(*file, batch, seq) : data::StreamBatches(ids, batch, seq);
}

std::string TextCorpus::str() const {
  return fmt::format("{}: {} training, {} validation, {} test tokens, {} {}", printable(source),
                     with_commas(train.size()), with_commas(valid.size()), with_commas(test.size()),
                     with_commas(vocabulary()), of_words() ? "words" : "tokens in the vocabulary");
}

void TextCorpus::set_perplexities(double valid_loss, double test_loss, RunSummary& summary) const {
  const auto a_word = [](double loss, const TextSplit& split) {
    return std::exp(loss * static_cast<double>(split.size()) / static_cast<double>(split.words));
  };
  summary.valid_perplexity = std::exp(valid_loss);
  summary.test_perplexity = std::exp(test_loss);
  if (of_words()) return;
  summary.valid_word_perplexity = a_word(valid_loss, valid);
  summary.test_word_perplexity = a_word(test_loss, test);
}

TextCorpus open_text_corpus(const std::string& text, std::string data) {
  if (!text.empty()) {
    if (data::holds_prepared_corpus(text))
      throw FormatError(fmt::format("{}: holds a prepared corpus; name it by --data", text));
    return corpus_of_words(data::read_text(text));
  }
  const char* variable = std::getenv("ETNA_DATA");
  if (data.empty() && variable != nullptr) data = variable;
  if (!data.empty())
    return data::holds_prepared_corpus(data) ? corpus_of_prepared(data) : corpus_of_words(data::read_wikitext(data));
  TextCorpus corpus = corpus_of_words(data::demo_corpus());
  corpus.embedded = variable == nullptr;
  return corpus;
}

}  // namespace etna::training
