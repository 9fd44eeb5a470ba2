#include <etna/data/tokenizers/bpe_tokenizer.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/splits/pre_tokenizer.h>
#include <etna/data/tokenizers/internal/splits/text_chunks.h>
#include <etna/data/tokenizers/internal/unicode/byte_characters.h>
#include <etna/device/error.h>
#include <etna/device/internal/cpu/parallel.h>

namespace etna::data {
namespace {

using Pair = BpeTokenizer::Merge;

using WordViews = std::unordered_map<std::string_view, std::int64_t>;

/// A hash that takes views, so that a lookup copies no word.
struct WordHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};

/// Counts the words of a text, where each of `excepts` is no word, and ends one.
void count_words(std::string_view text, std::span<const std::string> excepts, WordViews& counts) {
  if (excepts.empty()) {
    for_each_word(text, [&](std::string_view word) { ++counts[word]; });
    return;
  }
  const std::string& except = excepts.front();
  for (std::size_t at; (at = text.find(except)) != std::string_view::npos;) {
    count_words(text.substr(0, at), excepts.subspan(1), counts);
    text.remove_prefix(at + except.size());
  }
  count_words(text, excepts.subspan(1), counts);
}

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const std::uint64_t both = static_cast<std::uint64_t>(static_cast<std::uint32_t>(pair.first)) << 32 |
                               static_cast<std::uint32_t>(pair.second);
    return static_cast<std::size_t>((both ^ both >> 29) * 0x9E3779B97F4A7C15u);
  }
};

struct Word {
  std::vector<std::int32_t> ids;
  std::int64_t count;
};

/// A candidate pair for the next merge. Its count may be outdated, and a pair may have several entries, each with the
/// words that gained the pair when the entry was made.
struct BpeTrainEntry {
  std::int64_t count;
  Pair pair;
  std::vector<std::uint32_t> words;
};

/// Whether `a` comes after `b`: the highest count comes first, then the smallest pair.
bool after(const BpeTrainEntry& a, const BpeTrainEntry& b) {
  return a.count != b.count ? a.count < b.count : b.pair < a.pair;
}

class Merger {
 public:
  Merger(std::vector<Word> words) : words_(std::move(words)) {
    std::unordered_map<Pair, std::vector<std::uint32_t>, PairHash> where;
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      const Word& word = words_[w];
      for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) gain({word.ids[i], word.ids[i + 1]}, word.count, w, where);
    }
    push(where);
  }

  /// The entry to merge next; false if no pair occurs min_frequency times.
  bool next(std::int64_t min_frequency, BpeTrainEntry& entry) {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), after);
      entry = std::move(heap_.back());
      heap_.pop_back();
      const std::int64_t now = counts_[entry.pair];
      if (entry.count == now) return now >= std::max<std::int64_t>(min_frequency, 1);
      entry.count = now;
      heap_.push_back(std::move(entry));
      std::push_heap(heap_.begin(), heap_.end(), after);
    }
    return false;
  }

  void merge(const BpeTrainEntry& entry, std::int32_t joined) {
    std::unordered_map<Pair, std::vector<std::uint32_t>, PairHash> where;
    for (const std::uint32_t w : entry.words) merge_word(w, entry.pair, joined, where);
    push(where);
  }

 private:
  using Where = std::unordered_map<Pair, std::vector<std::uint32_t>, PairHash>;

  void gain(Pair pair, std::int64_t count, std::uint32_t word, Where& where) {
    counts_[pair] += count;
    std::vector<std::uint32_t>& words = where[pair];
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  void merge_word(std::uint32_t w, Pair pair, std::int32_t joined, Where& where) {
    std::vector<std::int32_t>& ids = words_[w].ids;
    const std::int64_t count = words_[w].count;
    std::size_t to = 0;
    for (std::size_t i = 0; i < ids.size(); ++to) {
      if (i + 1 == ids.size() || ids[i] != pair.first || ids[i + 1] != pair.second) {
        ids[to] = ids[i++];
        continue;
      }
      if (to > 0) {
        counts_[{ids[to - 1], pair.first}] -= count;
        gain({ids[to - 1], joined}, count, w, where);
      }
      if (i + 2 < ids.size()) {
        counts_[{pair.second, ids[i + 2]}] -= count;
        gain({joined, ids[i + 2]}, count, w, where);
      }
      ids[to] = joined;
      i += 2;
    }
    ids.resize(to);
  }

  void push(Where& where) {
    for (auto& found : where) {
      const std::int64_t count = counts_[found.first];
      if (count <= 0) continue;
      heap_.push_back({count, found.first, std::move(found.second)});
      std::push_heap(heap_.begin(), heap_.end(), after);
    }
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, std::int64_t, PairHash> counts_;
  std::vector<BpeTrainEntry> heap_;
};

}  // namespace

struct WordCounts::Words {
  std::unordered_map<std::string, std::int64_t, WordHash, std::equal_to<>> counts;
};

WordCounts::WordCounts(std::vector<std::string> except) : except_(std::move(except)), words_(new Words) {
  std::erase(except_, std::string());
}

WordCounts::~WordCounts() = default;

void WordCounts::add(std::string_view text) {
  const std::vector<std::string_view> chunks = text_chunks(text, chunk_size(text.size()));
  const auto tasks = static_cast<std::int64_t>(chunks.size());
  const std::int64_t workers = std::min<std::int64_t>(tasks, cpu::workers());
  std::vector<WordViews> each(static_cast<std::size_t>(workers));
  cpu::for_each_task(workers, [&](std::int64_t worker) {
    for (std::int64_t i = worker; i < tasks; i += workers)
      count_words(chunks[static_cast<std::size_t>(i)], except_, each[static_cast<std::size_t>(worker)]);
  });
  auto& counts = words_->counts;
  for (const WordViews& views : each) {
    for (const auto& entry : views) {
      const auto known = counts.find(entry.first);
      if (known != counts.end())
        known->second += entry.second;
      else
        counts.emplace(entry.first, entry.second);
    }
  }
}

BpeTokenizer BpeTokenizer::train(std::span<const std::string_view> texts, const BpeOptions& options) {
  WordCounts words;
  for (const std::string_view text : texts) words.add(text);
  return train(words, options);
}

BpeTokenizer BpeTokenizer::train(const WordCounts& counted, const BpeOptions& options) {
  const std::size_t least = 256 + options.special_tokens.size();
  if (options.vocab_size < static_cast<std::int64_t>(least) ||
      options.vocab_size > std::numeric_limits<std::int32_t>::max())
    throw FormatError(
        fmt::format("bpe: got a vocabulary size of {}; wanted at least {}, for 256 bytes and {} special tokens, "
                    "and at most 2147483647",
                    options.vocab_size, least, options.special_tokens.size()));
  std::vector<std::string> tokens = options.special_tokens;
  std::vector<std::int32_t> special;
  for (std::size_t i = 0; i < tokens.size(); ++i) special.push_back(static_cast<std::int32_t>(i));
  std::array<std::int32_t, 256> ids{};
  for (const unsigned char byte : bytes_by_character()) {
    ids[byte] = static_cast<std::int32_t>(tokens.size());
    tokens.emplace_back(1, static_cast<char>(byte));
  }
  BpeTokenizer(tokens, {}, special);  // checks the special tokens before training
  std::unordered_map<std::string, std::int32_t> known;
  for (std::size_t i = special.size(); i < tokens.size(); ++i) known.emplace(tokens[i], static_cast<std::int32_t>(i));

  std::vector<Word> words;
  words.reserve(counted.words_->counts.size());
  for (const auto& entry : counted.words_->counts) {
    Word word{{}, entry.second};
    word.ids.reserve(entry.first.size());
    for (const char c : entry.first) word.ids.push_back(ids[static_cast<unsigned char>(c)]);
    if (word.ids.size() > 1) words.push_back(std::move(word));
  }
  Merger merger(std::move(words));
  std::vector<Merge> merges;
  BpeTrainEntry entry;
  while (static_cast<std::int64_t>(tokens.size()) < options.vocab_size && merger.next(options.min_frequency, entry)) {
    std::string joined = tokens[static_cast<std::size_t>(entry.pair.first)];
    joined += tokens[static_cast<std::size_t>(entry.pair.second)];
    // In a file, which spells bytes as characters, it would be identical to the special token.
    if (std::find(options.special_tokens.begin(), options.special_tokens.end(), to_characters(joined)) !=
        options.special_tokens.end())
      continue;
    // Two merges may produce the same bytes ("ab" + "c", "a" + "bc"); they share one token.
    const auto added = known.emplace(joined, static_cast<std::int32_t>(tokens.size()));
    if (added.second) tokens.push_back(std::move(joined));
    merges.push_back(entry.pair);
    merger.merge(entry, added.first->second);
  }
  // A pair that was merged more than once keeps its last rank.
  std::unordered_map<Pair, std::size_t, PairHash> last;
  for (std::size_t i = 0; i < merges.size(); ++i) last[merges[i]] = i;
  std::vector<Merge> distinct;
  for (std::size_t i = 0; i < merges.size(); ++i)
    if (last[merges[i]] == i) distinct.push_back(merges[i]);
  return BpeTokenizer(std::move(tokens), std::move(distinct), std::move(special));
}

}  // namespace etna::data
