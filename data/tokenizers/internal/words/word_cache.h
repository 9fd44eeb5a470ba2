#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace etna::data {

/// The ids of words that a tokenizer has encoded, for every thread and every text: words repeat, and a conversation is
/// encoded again at each turn. A word's ids must depend on the word alone.
///
/// Two tables bound the memory. Words are added to the younger one. When it is full, it becomes the older one, and the
/// younger one is a new table. Words that are found in the older one are copied, so words in use stay. Lookups take no
/// lock.
class WordCache {
 public:
  class Reader;
  using Ids = std::vector<std::int32_t>;
  /// Longer words, in bytes, rarely repeat.
  static constexpr std::size_t kLongestWord = 48;
  /// The largest table: some 65,000 words of English.
  static constexpr std::size_t kMostSlots = std::size_t{1} << 17;

  WordCache() = default;
  WordCache(const WordCache&) = delete;
  WordCache& operator=(const WordCache&) = delete;

  /// Bytes of both tables.
  std::size_t bytes() const;

 private:
  /// An open hash table that words are only added to. A slot is the upper half of a hash and the place of the word in
  /// entries_, plus one; 0: free. An entry is published by its slot, and never changes.
  class Table {
   public:
    explicit Table(std::size_t slots);
    bool find(std::size_t hash, std::string_view word, Ids& ids) const;
    /// @return false if the table is full
    bool add(std::size_t hash, std::string_view word, const std::int32_t* ids, std::size_t count);
    std::size_t slots() const { return mask_ + 1; }
    std::size_t bytes() const { return slots() * sizeof(slots_[0]) + size_ * sizeof(entries_[0]); }

   private:
    bool equals(std::size_t place, std::string_view word) const;

    std::size_t mask_, size_;
    std::unique_ptr<std::atomic<std::uint64_t>[]> slots_;
    std::unique_ptr<std::uint32_t[]> entries_;  ///< each: the word's length and number of ids, the word, the ids
    std::atomic<std::size_t> used_{0};
  };
  struct Tables {
    std::shared_ptr<Table> young, old;
  };

  Tables tables() const;
  /// The tables after `full` has become the older one, here or in another thread.
  Tables next(const std::shared_ptr<Table>& full);

  mutable std::mutex mutex_;
  Tables tables_;
};

/// Access to a cache for one thread.
class WordCache::Reader {
 public:
  explicit Reader(WordCache& cache) : cache_(cache), tables_(cache.tables()) {}

  /// Appends the ids of a word. @param encode (word, ids) appends them if they are not known
  template <typename Encode>
  void append(std::string_view word, Ids& ids, Encode&& encode) {
    if (word.size() > kLongestWord) return encode(word, ids);
    const std::size_t hash = std::hash<std::string_view>{}(word);
    if (tables_.young != nullptr && tables_.young->find(hash, word, ids)) return;
    const std::size_t begin = ids.size();
    if (tables_.old == nullptr || !tables_.old->find(hash, word, ids)) encode(word, ids);
    add(hash, word, ids.data() + begin, ids.size() - begin);
  }

 private:
  void add(std::size_t hash, std::string_view word, const std::int32_t* ids, std::size_t count);

  WordCache& cache_;
  Tables tables_;
};

}  // namespace etna::data
