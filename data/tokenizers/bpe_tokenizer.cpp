#include <etna/data/tokenizers/bpe_tokenizer.h>

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/internal/splits/pre_tokenizer.h>
#include <etna/data/tokenizers/internal/splits/text_chunks.h>
#include <etna/data/tokenizers/internal/unicode/byte_characters.h>
#include <etna/data/tokenizers/internal/words/word_cache.h>
#include <etna/device/error.h>
#include <etna/device/internal/cpu/parallel.h>
#include <etna/tensor/io/internal/xxh3.h>

namespace etna::data {
namespace {

/// Words up to this many bytes are merged by scanning all pairs; longer ones with a heap.
constexpr std::size_t kBpeTokenizerShortWord = WordCache::kLongestWord;

std::uint64_t bpe_tokenizer_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

struct BpeTokenizer::Rank {
  std::int32_t rank, id;
};

struct BpeTokenizer::Lookup {
  std::unordered_map<std::uint64_t, Rank> ranks;
  WordCache words;
};

BpeTokenizer::BpeTokenizer(std::vector<std::string> tokens, std::vector<Merge> merges,
                           std::vector<std::int32_t> special)
    : tokens_(std::move(tokens)),
      merges_(std::move(merges)),
      special_(std::move(special)),
      lookup_(std::make_shared<Lookup>()) {
  if (tokens_.size() > INT32_MAX) throw FormatError("bpe: more tokens than a 32-bit id can number");
  const auto count = static_cast<std::int32_t>(tokens_.size());
  std::vector<bool> is_special(tokens_.size(), false);
  std::unordered_set<std::string> seen;
  for (const std::int32_t id : special_) {
    if (id < 0 || id >= count)
      throw FormatError(fmt::format("bpe: special token {} is out of range for {} tokens", id, count));
    const std::string& text = tokens_[static_cast<std::size_t>(id)];
    if (text.empty() || find_invalid_utf8(text) != std::string::npos)
      throw FormatError(fmt::format("bpe: special token {} is empty or not UTF-8", id));
    if (!seen.insert(text).second) throw FormatError(fmt::format("bpe: special token '{}' occurs twice", text));
    is_special[static_cast<std::size_t>(id)] = true;
    starts_special_[static_cast<unsigned char>(text[0])] = true;
  }
  longest_first_ = special_;
  std::stable_sort(longest_first_.begin(), longest_first_.end(),
                   [&](auto a, auto b) { return token(a).size() > token(b).size(); });
  std::unordered_map<std::string_view, std::int32_t> ids;
  bytes_.fill(-1);
  for (std::int32_t id = 0; id < count; ++id) {
    if (is_special[static_cast<std::size_t>(id)]) continue;
    const std::string& bytes = tokens_[static_cast<std::size_t>(id)];
    if (bytes.empty()) throw FormatError(fmt::format("bpe: token {} is empty", id));
    const auto added = ids.emplace(bytes, id);
    if (!added.second)
      throw FormatError(fmt::format("bpe: tokens {} and {} have the same bytes", added.first->second, id));
    if (!seen.empty() && seen.count(to_characters(bytes)) > 0)
      throw FormatError(fmt::format("bpe: special token '{}' is also an ordinary token", to_characters(bytes)));
    if (bytes.size() == 1) bytes_[static_cast<unsigned char>(bytes[0])] = id;
  }
  for (std::size_t b = 0; b < 256; ++b)
    if (bytes_[b] < 0) throw FormatError(fmt::format("bpe: byte 0x{:02X} has no token; all 256 bytes need one", b));
  std::unordered_map<std::uint64_t, Rank>& ranks = lookup_->ranks;
  ranks.reserve(merges_.size());
  for (std::size_t rank = 0; rank < merges_.size(); ++rank) {
    const auto& [left, right] = merges_[rank];
    const auto joined = ids.find(std::string(token(left)).append(token(right)));
    if (joined == ids.end())
      throw FormatError(fmt::format("bpe: the result of merge {} is not in the vocabulary", rank));
    ranks.insert_or_assign(bpe_tokenizer_key(left, right), Rank{static_cast<std::int32_t>(rank), joined->second});
  }
}

std::string_view BpeTokenizer::token(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= tokens_.size())
    throw FormatError(fmt::format("bpe: id {} is out of range for {} tokens", id, tokens_.size()));
  return tokens_[static_cast<std::size_t>(id)];
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += token(id);
  return text;
}

std::uint64_t BpeTokenizer::hash() const {
  io::Xxh3 hash;
  hash.add(name());
  hash.add(std::uint64_t{tokens_.size()});
  for (const std::string& text : tokens_) hash.add(text);
  hash.add(std::uint64_t{merges_.size()});
  for (const Merge& merge : merges_) hash.add(bpe_tokenizer_key(merge.first, merge.second));
  for (const std::int32_t id : special_) hash.add(static_cast<std::uint64_t>(id));
  return hash.value();
}

const BpeTokenizer::Rank* BpeTokenizer::find(std::int32_t left, std::int32_t right) const {
  const auto found = lookup_->ranks.find(bpe_tokenizer_key(left, right));
  return found == lookup_->ranks.end() ? nullptr : &found->second;
}

std::int32_t BpeTokenizer::special_at(std::string_view text, std::size_t at) const {
  if (!starts_special_[static_cast<unsigned char>(text[at])]) return -1;
  for (const std::int32_t id : longest_first_) {
    const std::string_view special = token(id);
    if (text.substr(at, special.size()) == special) return id;
  }
  return -1;
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text, SpecialTokens special,
                                               std::vector<std::string>*) const {
  const bool recognize = special == SpecialTokens::recognize && !special_.empty();
  // A chunk starts with white space, so only a special token that contains white space could span two chunks.
  const bool may_cross = recognize && std::any_of(special_.begin(), special_.end(), [&](std::int32_t id) {
                           return token(id).find_first_of(" \t\n\v\f\r") != std::string_view::npos;
                         });
  const std::vector<std::string_view> chunks =
      may_cross ? std::vector<std::string_view>{text} : text_chunks(text, chunk_size(text.size()));
  std::vector<Ids> parts(chunks.size());
  cpu::for_each_task(static_cast<std::int64_t>(chunks.size()), [&](std::int64_t task) {
    const std::string_view chunk = chunks[static_cast<std::size_t>(task)];
    Ids& ids = parts[static_cast<std::size_t>(task)];
    WordCache::Reader words(lookup_->words);
    ids.reserve(chunk.size() / 4 + 1);
    if (recognize)
      encode_part(chunk, words, ids);
    else
      append_words(chunk, words, ids);
  });
  if (parts.size() == 1) return std::move(parts[0]);
  std::size_t total = 0;
  for (const Ids& ids : parts) total += ids.size();
  Ids all;
  all.reserve(total);
  for (const Ids& ids : parts) all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

template <typename Words>
void BpeTokenizer::encode_part(std::string_view text, Words& words, Ids& ids) const {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::int32_t id = special_at(text, at);
    if (id < 0) {
      ++at;
      continue;
    }
    append_words(text.substr(begin, at - begin), words, ids);
    ids.push_back(id);
    begin = at += token(id).size();
  }
  append_words(text.substr(begin), words, ids);
}

template <typename Words>
void BpeTokenizer::append_words(std::string_view text, Words& words, Ids& ids) const {
  for_each_word(text, [&](std::string_view word) {
    words.append(word, ids, [this](std::string_view unknown, Ids& to) {
      if (unknown.size() > kBpeTokenizerShortWord) return encode_long_word(unknown, to);
      encode_word(unknown, to);
    });
  });
}

void BpeTokenizer::encode_word(std::string_view word, Ids& ids) const {
  std::array<std::int32_t, kBpeTokenizerShortWord> symbols;
  std::array<Rank, kBpeTokenizerShortWord> pairs;  // of symbols i and i + 1
  std::size_t count = 0;
  for (const char c : word) symbols[count++] = bytes_[static_cast<unsigned char>(c)];
  const auto look_up = [&](std::size_t i) {
    const Rank* rank = find(symbols[i], symbols[i + 1]);
    pairs[i] = rank != nullptr ? *rank : Rank{INT32_MAX, -1};
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].id < 0) break;
    symbols[best] = pairs[best].id;
    for (std::size_t i = best + 1; i + 1 < count; ++i) symbols[i] = symbols[i + 1];
    for (std::size_t i = best + 1; i + 2 < count; ++i) pairs[i] = pairs[i + 1];
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(count));
}

void BpeTokenizer::encode_long_word(std::string_view word, Ids& ids) const {
  // A doubly linked list of symbols and a heap of mergeable pairs: n log n in the word's length.
  struct Symbol {
    std::int32_t id;  ///< -1: merged into the previous symbol
    std::size_t before, after;
  };
  struct Candidate {
    std::int32_t rank;
    std::size_t at;
    std::int32_t left, right, joined;
    bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  const std::size_t none = word.size();
  std::vector<Symbol> symbols(word.size());
  std::priority_queue<Candidate> heap;
  const auto offer = [&](std::size_t at) {
    if (at == none || symbols[at].after == none) return;
    const std::int32_t left = symbols[at].id, right = symbols[symbols[at].after].id;
    if (const Rank* rank = find(left, right)) heap.push({rank->rank, at, left, right, rank->id});
  };
  for (std::size_t i = 0; i < word.size(); ++i)
    symbols[i] = {bytes_[static_cast<unsigned char>(word[i])], i == 0 ? none : i - 1, i + 1};
  for (std::size_t i = 0; i < word.size(); ++i) offer(i);
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    Symbol& left = symbols[top.at];
    if (left.id != top.left || left.after == none || symbols[left.after].id != top.right) continue;
    Symbol& right = symbols[left.after];
    left.id = top.joined;
    right.id = -1;
    left.after = right.after;
    if (right.after != none) symbols[right.after].before = top.at;
    offer(left.before);
    offer(top.at);
  }
  for (std::size_t i = 0; i < word.size(); i = symbols[i].after) ids.push_back(symbols[i].id);
}

}  // namespace etna::data
