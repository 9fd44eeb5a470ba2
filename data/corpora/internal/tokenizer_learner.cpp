#include <etna/data/corpora/internal/tokenizer_learner.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <etna/data/corpora/prepared_corpus.h>
#include <etna/data/internal/words.h>
#include <etna/data/tokenizers/bpe_tokenizer.h>
#include <etna/data/tokenizers/word_tokenizer.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

class BpeLearner : public TokenizerLearner {
 public:
  explicit BpeLearner(BpeOptions options) : options_(std::move(options)), words_(options_.special_tokens) {}

  void add(std::string_view text) override { words_.add(text); }
  std::unique_ptr<Tokenizer> finish() override {
    return std::make_unique<BpeTokenizer>(BpeTokenizer::train(words_, options_));
  }

 private:
  BpeOptions options_;
  WordCounts words_;
};

class WordLearner : public TokenizerLearner {
 public:
  /// @param vocab_size 0: no limit
  WordLearner(std::int64_t vocab_size, std::int64_t min_frequency)
      : vocab_size_(static_cast<std::size_t>(vocab_size)), min_frequency_(min_frequency) {}

  void add(std::string_view text) override {
    for_each_token(text, [&](std::string_view word, bool) { count(word); });
  }
  void end_line() override { count(kEndOfLine); }

  std::unique_ptr<Tokenizer> finish() override {
    Vocabulary kept;
    const std::vector<bool> keeps = choose();
    for (std::size_t id = 0; id < counts_.size(); ++id)
      if (keeps[id]) kept.add(words_.word(static_cast<std::int32_t>(id)));
    // What other splits, and prompts, may need.
    kept.add(kEndOfLine);
    kept.add(kUnknown);
    return std::make_unique<WordTokenizer>(std::move(kept));
  }

 private:
  void count(std::string_view word) {
    const auto id = static_cast<std::size_t>(words_.add(word));
    if (id == counts_.size()) counts_.push_back(0);
    ++counts_[id];
  }

  static bool is_special(std::string_view word) { return word == kEndOfLine || word == kUnknown; }

  /// Which words get an id: those that are frequent enough, and of them the most frequent; of equal ones, those that
  /// come first.
  std::vector<bool> choose() const {
    std::vector<std::size_t> order;
    std::vector<bool> keeps(counts_.size(), false);
    for (std::size_t id = 0; id < counts_.size(); ++id) {
      if (is_special(words_.word(static_cast<std::int32_t>(id))))
        keeps[id] = true;
      else if (counts_[id] >= min_frequency_)
        order.push_back(id);
    }
    if (vocab_size_ > 0 && order.size() > vocab_size_ - 2) {
      std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return counts_[a] > counts_[b]; });
      order.resize(vocab_size_ - 2);
    }
    for (const std::size_t id : order) keeps[id] = true;
    return keeps;
  }

  std::size_t vocab_size_;
  std::int64_t min_frequency_;
  Vocabulary words_;
  std::vector<std::int64_t> counts_;  ///< by id
};

}  // namespace

std::unique_ptr<TokenizerLearner> make_learner(const std::string& kind, std::int64_t vocab_size,
                                               std::int64_t min_frequency) {
  const bool bpe = kind == "bpe";
  if (!bpe && kind != "word") throw FormatError(fmt::format("tokenizer: '{}' is neither word nor bpe", kind));
  const std::int64_t least = bpe ? 257 : 3;
  if (vocab_size < 0 || ((bpe || vocab_size > 0) && vocab_size < least) || vocab_size > INT32_MAX || min_frequency < 0)
    throw FormatError(
        fmt::format("tokenizer: a vocabulary of {} that occur {} times or more; {} takes from {} to {}, and no "
                    "negative frequency",
                    vocab_size, min_frequency, kind, least, INT32_MAX));
  if (!bpe) return std::make_unique<WordLearner>(vocab_size, min_frequency);
  BpeOptions options;
  options.vocab_size = vocab_size;
  options.min_frequency = min_frequency;
  options.special_tokens = {std::string(kEndOfText)};
  return std::make_unique<BpeLearner>(std::move(options));
}

}  // namespace etna::data
