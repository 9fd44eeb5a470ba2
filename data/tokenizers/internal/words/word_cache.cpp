#include <etna/data/tokenizers/internal/words/word_cache.h>

#include <algorithm>
#include <cstring>

namespace etna::data {
namespace {

constexpr std::size_t kLeastSlots = 1024;
/// Words of entries_ for each slot. An entry has at least three, an average one of English six: half of the slots.
constexpr std::size_t kEntryUnits = 3;
/// Bounds the time that a lookup takes, whatever the hashes.
constexpr std::size_t kMostProbes = 12;

std::uint64_t upper_half(std::size_t hash) {
  return (static_cast<std::uint64_t>(hash) * 0x9E3779B97F4A7C15) & 0xFFFFFFFF00000000;
}

constexpr std::size_t units_of(std::size_t bytes) { return (bytes + 3) / 4; }

}  // namespace

WordCache::Table::Table(std::size_t slots)
    : mask_(slots - 1),
      size_(slots * kEntryUnits),
      slots_(std::make_unique<std::atomic<std::uint64_t>[]>(slots)),
      entries_(new std::uint32_t[size_]) {}

bool WordCache::Table::equals(std::size_t place, std::string_view word) const {
  return (entries_[place] & 0xFF) == word.size() && std::memcmp(&entries_[place + 1], word.data(), word.size()) == 0;
}

bool WordCache::Table::find(std::size_t hash, std::string_view word, Ids& ids) const {
  const std::uint64_t tag = upper_half(hash);
  for (std::size_t probe = 0; probe < kMostProbes; ++probe) {
    const std::uint64_t slot = slots_[(hash + probe) & mask_].load(std::memory_order_acquire);
    if (slot == 0) return false;
    const std::size_t place = (slot & 0xFFFFFFFF) - 1;
    if ((slot & ~std::uint64_t{0xFFFFFFFF}) != tag || !equals(place, word)) continue;
    const std::size_t count = entries_[place] >> 8, first = place + 1 + units_of(word.size());
    for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>(entries_[first + i]));
    return true;
  }
  return false;
}

bool WordCache::Table::add(std::size_t hash, std::string_view word, const std::int32_t* ids, std::size_t count) {
  const std::size_t units = 1 + units_of(word.size()) + count;
  if (units > size_) return true;  // too long for any table
  if (used_.load(std::memory_order_relaxed) + units > size_) return false;
  const std::size_t place = used_.fetch_add(units, std::memory_order_relaxed);
  if (place + units > size_) return false;
  entries_[place] = static_cast<std::uint32_t>(word.size() | count << 8);
  std::memcpy(&entries_[place + 1], word.data(), word.size());
  if (count > 0) std::memcpy(&entries_[place + 1 + units_of(word.size())], ids, count * sizeof ids[0]);
  const std::uint64_t entry = upper_half(hash) | (place + 1);
  for (std::size_t probe = 0; probe < kMostProbes; ++probe) {
    std::uint64_t slot = 0;
    if (slots_[(hash + probe) & mask_].compare_exchange_strong(slot, entry, std::memory_order_acq_rel)) return true;
    // Another thread has added the same word.
    if ((slot ^ entry) >> 32 == 0 && equals((slot & 0xFFFFFFFF) - 1, word)) return true;
  }
  return place < size_ / 2;  // words with the same hash do not make a table full
}

std::size_t WordCache::bytes() const {
  const Tables now = tables();
  return (now.young == nullptr ? 0 : now.young->bytes()) + (now.old == nullptr ? 0 : now.old->bytes());
}

WordCache::Tables WordCache::tables() const {
  const std::lock_guard lock(mutex_);
  return tables_;
}

WordCache::Tables WordCache::next(const std::shared_ptr<Table>& full) {
  const std::lock_guard lock(mutex_);
  if (tables_.young == full) {
    const std::size_t slots = full == nullptr ? kLeastSlots : std::min(4 * full->slots(), kMostSlots);
    tables_ = {std::make_shared<Table>(slots), full};
  }
  return tables_;
}

void WordCache::Reader::add(std::size_t hash, std::string_view word, const std::int32_t* ids, std::size_t count) {
  if (tables_.young != nullptr && tables_.young->add(hash, word, ids, count)) return;
  tables_ = cache_.next(tables_.young);
  tables_.young->add(hash, word, ids, count);
}

}  // namespace etna::data
