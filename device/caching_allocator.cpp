#include <etna/device/caching_allocator.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna {

/// A range of bytes in a segment. Neighbours are linked so that free ones can merge; the first block owns the segment.
struct CachingAllocator::Block {
  CachingAllocator* owner;
  Segment segment;
  std::size_t offset, bytes;
  bool used = false, small = false;
  Block* previous = nullptr;
  Block* next = nullptr;
};

namespace {
constexpr std::size_t kAlign = 256;
constexpr std::size_t kSmallLimit = std::size_t{1} << 20;
constexpr std::size_t kSmallSegment = std::size_t{4} << 20;
constexpr std::size_t kLargeSegment = std::size_t{64} << 20;
constexpr std::size_t kMostBytes = std::size_t{1} << 62;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }
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

std::string mib(std::uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 1048576.0); }
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
    auto* tail = new Block{this, block->segment, block->offset + bytes, rest, false, block->small, block, block->next};
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
      why = fmt::format("ETNA_MEMORY_LIMIT is {}", mib(limit));
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
  (small ? small_ : large_).insert(new Block{this, segment, 0, size, false, small});
  stats_.cached += size;
  return true;
}

StoragePtr CachingAllocator::allocate(std::size_t wanted) {
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
      throw OutOfMemory(fmt::format("{}: no room for {} ({} in use, {} cached): {}", device_.str(), mib(wanted),
                                    mib(stats_.in_use), mib(stats_.cached), why));
    }
    block = take(bytes);
  }
  stats_.in_use += block->bytes;
  stats_.cached -= block->bytes;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  std::byte* host = block->segment.host ? block->segment.host + block->offset : nullptr;
  return std::make_shared<Storage>(device_, wanted, host, block->segment.address + block->offset, block);
}

void CachingAllocator::free(Block* block) {
  std::lock_guard lock(mutex_);
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
}

}  // namespace etna
