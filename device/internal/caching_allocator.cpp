#include <etna/device/internal/caching_allocator.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/rounding.h>

namespace etna {

/// A range of bytes in a segment. Neighbours are linked so that free ones can merge; the first block owns the segment.
struct CachingAllocator::Block {
  CachingAllocator* owner;
  Segment segment;
  std::size_t offset, bytes;
  bool used = false, small = false;
  MemoryUse use = MemoryUse::activations;
  Block* previous = nullptr;
  Block* next = nullptr;
};

namespace {
constexpr std::size_t kAlign = 256;
constexpr std::size_t kSmallLimit = std::size_t{1} << 20;
constexpr std::size_t kSmallSegment = std::size_t{4} << 20;
constexpr std::size_t kLargeSegment = std::size_t{64} << 20;
constexpr std::size_t kMostBytes = (~std::size_t{0} >> 2) + 1;  // a quarter of all addresses

/// $ETNA_MEMORY_LIMIT in bytes, a cap per device: for sharing a machine, and for tests. Read each time; new segments
/// are rare.
std::uint64_t memory_limit() {
  const char* text = std::getenv("ETNA_MEMORY_LIMIT");
  if (text == nullptr || *text == 0) return ~std::uint64_t{0};
  char* end = nullptr;
  std::uint64_t bytes = std::strtoull(text, &end, 10);
  if (*end != 0) throw Error(fmt::format("ETNA_MEMORY_LIMIT is '{}'; give a number of bytes", text));
  return bytes;
}

/// What to do about an allocation that found no room.
const char* advice(MemoryUse use) {
  if (use == MemoryUse::activations || use == MemoryUse::captured_steps)
    return "try a smaller batch, gradients accumulated over several, activation checkpointing, or bf16";
  if (use == MemoryUse::data) return "try to keep the data on the host";
  return "try a smaller model, or bf16";
}
}  // namespace

bool CachingAllocator::Smaller::operator()(const Block* a, const Block* b) const {
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  std::uint64_t at = a->segment.address + a->offset, bt = b->segment.address + b->offset;
  return at != bt ? at < bt : a < b;
}

CachingAllocator::~CachingAllocator() { release_free_segments(); }

std::size_t CachingAllocator::rounded(std::size_t bytes) {
  bytes = std::max(bytes, kAlign);
  if (bytes <= kSmallLimit) return round_up(bytes, kAlign);
  return round_up(bytes, std::bit_floor(bytes) / 8);
}

CachingAllocator::Block* CachingAllocator::take(std::size_t bytes) {
  Pool& pool = bytes <= kSmallLimit ? small_ : large_;
  Block key{this, {}, 0, bytes};
  auto found = pool.lower_bound(&key);
  if (found == pool.end()) return nullptr;
  Block* block = *found;
  pool.erase(found);
  std::size_t rest = block->bytes - bytes;
  if (rest >= (block->small ? kAlign : kSmallLimit)) {
    auto* tail = new Block{.owner = this,
                           .segment = block->segment,
                           .offset = block->offset + bytes,
                           .bytes = rest,
                           .small = block->small,
                           .previous = block,
                           .next = block->next};
    if (tail->next) tail->next->previous = tail;
    block->next = tail;
    block->bytes = bytes;
    pool.insert(tail);
  }
  block->used = true;
  return block;
}

bool CachingAllocator::grow(std::size_t bytes, std::string& why) {
  bool small = bytes <= kSmallLimit;
  // Large requests share segments of 64 MiB if they take at most half of one; larger ones get a segment of their own
  // size.
  std::size_t size = small                        ? kSmallSegment
                     : bytes <= kLargeSegment / 2 ? kLargeSegment
                                                  : round_up(bytes, std::size_t{2} << 20);
  Segment segment;
  auto allocate_segment = [&] {
    if (std::uint64_t limit = memory_limit(); stats_.reserved() + size > limit) {
      why = fmt::format("ETNA_MEMORY_LIMIT is {}", readable_bytes(limit));
      return false;
    }
    return source_.allocate(size, segment, why);
  };
  bool ok = allocate_segment();
  if (!ok && !small && size > bytes) {
    size = bytes;
    ok = allocate_segment();
  }
  if (!ok) return false;
  segment.bytes = size;
  (small ? small_ : large_)
      .insert(new Block{.owner = this, .segment = segment, .offset = 0, .bytes = size, .small = small});
  stats_.cached += size;
  return true;
}

StoragePtr CachingAllocator::allocate(std::size_t wanted, MemoryUse use) {
  std::lock_guard lock(mutex_);
  if (wanted > kMostBytes) {  // so that the rounding below cannot overflow
    throw OutOfMemory(fmt::format("{}: no room for {} bytes, more than any memory has", device_.str(), wanted));
  }
  std::size_t bytes = rounded(wanted);
  Block* block = take(bytes);
  if (block) {
    ++stats_.hits;
  } else {
    ++stats_.misses;
    std::string why;
    bool grown = grow(bytes, why);
    if (!grown) {
      release_free_segments();
      grown = grow(bytes, why);
    }
    if (!grown) {
      throw OutOfMemory(fmt::format("{}: no room for {} of {} ({}; {} cached): {}; {}", device_.str(),
                                    readable_bytes(wanted), name(use), stats_.str(), readable_bytes(stats_.cached), why,
                                    advice(use)));
    }
    block = take(bytes);
  }
  block->use = use;
  used(*block) += block->bytes;
  stats_.in_use += block->bytes;
  stats_.cached -= block->bytes;
  if (stats_.in_use > stats_.peak) {
    stats_.peak = stats_.in_use;
    stats_.at_peak = stats_.by_use;
  }
  std::byte* host = block->segment.host ? block->segment.host + block->offset : nullptr;
  return std::make_shared<Storage>(device_, wanted, host, block->segment.address + block->offset, block);
}

void CachingAllocator::free(Block* block) {
  std::lock_guard lock(mutex_);
  used(*block) -= block->bytes;
  stats_.in_use -= block->bytes;
  stats_.cached += block->bytes;
  block->used = false;
  Pool& pool = block->small ? small_ : large_;
  auto absorb_next = [&](Block* left) {
    Block* right = left->next;
    left->bytes += right->bytes;
    left->next = right->next;
    if (right->next) right->next->previous = left;
    delete right;
  };
  if (block->next && !block->next->used) {
    pool.erase(block->next);
    absorb_next(block);
  }
  if (block->previous && !block->previous->used) {
    block = block->previous;
    pool.erase(block);
    absorb_next(block);
  }
  pool.insert(block);
}

std::uint64_t& CachingAllocator::used(const Block& block) { return stats_.by_use[static_cast<std::size_t>(block.use)]; }

void CachingAllocator::set_use(Block* block, MemoryUse use) {
  std::lock_guard lock(mutex_);
  used(*block) -= block->bytes;
  block->use = use;
  used(*block) += block->bytes;
}

void CachingAllocator::release_free_segments() {
  bool synchronized = false;
  for (Pool* pool : {&small_, &large_}) {
    for (auto it = pool->begin(); it != pool->end();) {
      Block* block = *it;
      if (block->previous || block->next) {
        ++it;
        continue;
      }
      if (!synchronized) source_.synchronize();
      synchronized = true;
      source_.release(block->segment);
      stats_.cached -= block->bytes;
      delete block;
      it = pool->erase(it);
    }
  }
}

void CachingAllocator::empty_cache() {
  std::lock_guard lock(mutex_);
  release_free_segments();
}

MemoryStats CachingAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak = stats_.in_use;
  stats_.at_peak = stats_.by_use;
}

std::uint64_t CachingAllocator::available() const {
  std::lock_guard lock(mutex_);
  const std::uint64_t limit = memory_limit();
  return stats_.cached + std::min(source_.available(), limit - std::min(limit, stats_.reserved()));
}

}  // namespace etna
