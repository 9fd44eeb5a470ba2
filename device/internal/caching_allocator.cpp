#include <etna/device/internal/caching_allocator.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/memory_settings.h>
#include <etna/device/internal/os/clock.h>
#include <etna/device/internal/rounding.h>
#include <etna/device/memory_control.h>

namespace etna {

/// A range of bytes in a segment. Neighbours are linked so that free ones can merge; the first block owns the segment,
/// or its part that `parent` is.
struct CachingAllocator::Block {
  CachingAllocator* owner;
  Segment segment;
  std::size_t offset, bytes;
  bool used = false, small = false;
  MemoryUse use = MemoryUse::activations;
  Block* previous = nullptr;
  Block* next = nullptr;
  bool reserved = false;       ///< in a segment that reserve() took
  Block* parent = nullptr;     ///< of a small one in a reserved segment: the large block that it was cut from
  std::uint64_t freed_at = 0;  ///< the key in unused_

  bool is_whole() const { return previous == nullptr && next == nullptr; }
};

namespace {
constexpr std::size_t kAlign = 256;
constexpr std::size_t kSmallLimit = std::size_t{1} << 20;
constexpr std::size_t kSmallSegment = std::size_t{4} << 20;
constexpr std::size_t kLargeSegment = std::size_t{64} << 20;
constexpr std::size_t kLargeUnit = std::size_t{2} << 20;        ///< of segments for one large request
constexpr std::size_t kMostBytes = (~std::size_t{0} >> 2) + 1;  // a quarter of all addresses

/// $ETNA_MEMORY_LIMIT in bytes, a cap per device: for sharing a machine, and for tests. Read each time; new segments
/// are rare.
std::uint64_t memory_limit() {
  const char* text = std::getenv("ETNA_MEMORY_LIMIT");
  if (text == nullptr || *text == 0) return ~std::uint64_t{0};
  try {
    return parse_bytes(text);
  } catch (const Error& error) {
    throw Error(fmt::format("ETNA_MEMORY_LIMIT: {}", error.what()));
  }
}

/// What to do about an allocation that found no room.
const char* advice(MemoryUse use) {
  if (use == MemoryUse::activations || use == MemoryUse::captured_steps)
    return "try a smaller batch, gradients accumulated over several, activation checkpointing, or bf16";
  if (use == MemoryUse::data) return "try to keep the data on the host";
  return "try a smaller model, or bf16";
}

/// Every allocator; never destroyed.
struct AllAllocators {
  std::mutex mutex;
  std::vector<CachingAllocator*> list;
  std::atomic<bool> leaving = false;
};
AllAllocators& all_allocators() {
  static auto* made = new AllAllocators;
  return *made;
}
}  // namespace

bool CachingAllocator::Smaller::operator()(const Block* a, const Block* b) const {
  if (a->bytes != b->bytes) return a->bytes < b->bytes;
  std::uint64_t at = a->segment.address + a->offset, bt = b->segment.address + b->offset;
  return at != bt ? at < bt : a < b;
}

CachingAllocator::CachingAllocator(Device device, SegmentSource& source) : device_(device), source_(source) {
  AllAllocators& all = all_allocators();
  std::lock_guard lock(all.mutex);
  all.list.push_back(this);
}

CachingAllocator::~CachingAllocator() {
  {
    AllAllocators& all = all_allocators();
    std::lock_guard lock(all.mutex);
    std::erase(all.list, this);
  }
  release_free_segments();
  release_reserve();
}

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
  if (block->is_whole() && !block->reserved) unused_.erase(block->freed_at);
  cut(block, bytes);
  return block;
}

void CachingAllocator::cut(Block* block, std::size_t bytes) {
  block->used = true;
  const std::size_t rest = block->bytes - bytes;
  if (rest < (block->small ? kAlign : kSmallLimit)) return;
  auto* tail = new Block{.owner = this,
                         .segment = block->segment,
                         .offset = block->offset + bytes,
                         .bytes = rest,
                         .small = block->small,
                         .previous = block,
                         .next = block->next,
                         .reserved = block->reserved,
                         .parent = block->parent};
  if (tail->next) tail->next->previous = tail;
  block->next = tail;
  block->bytes = bytes;
  (block->small ? small_ : large_).insert(tail);
}

bool CachingAllocator::allocate_segment(std::size_t bytes, Segment& out, std::string& why) {
  if (const std::uint64_t limit = memory_limit(); bytes > limit || stats_.reserved() > limit - bytes) {
    why = fmt::format("ETNA_MEMORY_LIMIT is {}", readable_bytes(limit));
    return false;
  }
  return source_.allocate(bytes, out, why);
}

bool CachingAllocator::grow_from_reserve() {
  Block key{this, {}, 0, kSmallSegment};
  for (auto it = large_.lower_bound(&key); it != large_.end(); ++it) {
    Block* parent = *it;
    if (!parent->reserved) continue;
    large_.erase(it);
    cut(parent, kSmallSegment);
    small_.insert(new Block{.owner = this,
                            .segment = parent->segment,
                            .offset = parent->offset,
                            .bytes = parent->bytes,
                            .small = true,
                            .reserved = true,
                            .parent = parent});
    return true;
  }
  return false;
}

bool CachingAllocator::grow(std::size_t bytes, std::string& why) {
  const bool small = bytes <= kSmallLimit;
  if (small && reserved_free_ >= kSmallSegment && grow_from_reserve()) return true;
  // Large requests share segments of 64 MiB if they take at most half of one, and the cache may keep the rest; others
  // get a segment of their own size.
  const bool shared = bytes <= kLargeSegment / 2 && kLargeSegment - bytes <= cache_limit_;
  std::size_t size = small ? kSmallSegment : shared ? kLargeSegment : round_up(bytes, kLargeUnit);
  Segment segment;
  bool ok = allocate_segment(size, segment, why);
  if (!ok && !small && size > bytes) {
    size = bytes;
    ok = allocate_segment(size, segment, why);
  }
  if (!ok) return false;
  auto* block =
      new Block{.owner = this, .segment = segment, .offset = 0, .bytes = size, .small = small, .freed_at = ++frees_};
  unused_.emplace(block->freed_at, block);
  (small ? small_ : large_).insert(block);
  stats_.cached += size;
  return true;
}

void CachingAllocator::read_settings() {
  if (has_settings_) return;
  const std::optional<std::uint64_t> limit = bytes_setting("ETNA_CACHE_LIMIT", device_, true);
  const std::optional<std::uint64_t> reserve = bytes_setting("ETNA_PREALLOCATE", device_, false);
  if (limit) cache_limit_ = *limit;
  if (reserve) reserve_locked(*reserve);
  has_settings_ = true;
}

StoragePtr CachingAllocator::allocate(std::size_t wanted, MemoryUse use) {
  std::lock_guard lock(mutex_);
  if (wanted > kMostBytes) {  // so that the rounding below cannot overflow
    throw OutOfMemory(fmt::format("{}: no room for {} bytes, more than any memory has", device_.str(), wanted));
  }
  read_settings();
  std::size_t bytes = rounded(wanted);
  Block* block = take(bytes);
  if (block) {
    ++stats_.hits;
  } else {
    ++stats_.misses;
    std::string why;
    bool grown = grow(bytes, why);
    if (!grown && release_free_segments() > 0) grown = grow(bytes, why);
    if (!grown && release_reserve() > 0) grown = grow(bytes, why);
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
  if (block->reserved) reserved_free_ -= block->bytes;
  note_peak();
  std::byte* host = block->segment.host ? block->segment.host + block->offset : nullptr;
  return std::make_shared<Storage>(device_, wanted, host, block->segment.address + block->offset, block);
}

void CachingAllocator::note_peak() {
  if (stats_.in_use <= stats_.peak) return;
  stats_.peak = stats_.in_use;
  stats_.at_peak = stats_.by_use;
}

void CachingAllocator::add_outside(std::uint64_t bytes, MemoryUse use) {
  std::lock_guard lock(mutex_);
  read_settings();
  const std::uint64_t limit = memory_limit();
  const auto fits = [&] { return bytes <= limit && stats_.reserved() <= limit - bytes; };
  if (!fits() && stats_.cached > 0) release_free_segments();
  if (!fits())
    throw OutOfMemory(
        fmt::format("{}: no room for {} of {} that are shared with another process ({}; {} cached): "
                    "ETNA_MEMORY_LIMIT is {}",
                    device_.str(), readable_bytes(bytes), name(use), stats_.str(), readable_bytes(stats_.cached),
                    readable_bytes(limit)));
  stats_.in_use += bytes;
  stats_.by_use[static_cast<std::size_t>(use)] += bytes;
  note_peak();
}

void CachingAllocator::remove_outside(std::uint64_t bytes, MemoryUse use) {
  std::lock_guard lock(mutex_);
  stats_.in_use -= bytes;
  stats_.by_use[static_cast<std::size_t>(use)] -= bytes;
}

void CachingAllocator::free(Block* block) {
  std::lock_guard lock(mutex_);
  used(*block) -= block->bytes;
  stats_.in_use -= block->bytes;
  stats_.cached += block->bytes;
  if (block->reserved) reserved_free_ += block->bytes;
  ++frees_;
  block = merge(block);
  if (block->parent != nullptr && block->is_whole()) {
    small_.erase(block);
    Block* parent = block->parent;
    delete block;
    block = merge(parent);
  }
  if (block->is_whole() && !block->reserved) {
    block->freed_at = frees_;
    unused_.emplace(block->freed_at, block);
  }
  enforce_cache_limit();
}

CachingAllocator::Block* CachingAllocator::merge(Block* block) {
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
  return block;
}

std::uint64_t& CachingAllocator::used(const Block& block) { return stats_.by_use[static_cast<std::size_t>(block.use)]; }

void CachingAllocator::set_use(Block* block, MemoryUse use) {
  std::lock_guard lock(mutex_);
  used(*block) -= block->bytes;
  block->use = use;
  used(*block) += block->bytes;
}

void CachingAllocator::release(Block* whole) {
  (whole->small ? small_ : large_).erase(whole);
  source_.release(whole->segment);
  stats_.cached -= whole->bytes;
  delete whole;
}

std::uint64_t CachingAllocator::release_free_segments() {
  const std::uint64_t before = stats_.cached;
  if (!unused_.empty()) source_.synchronize();
  for (const auto& [when, block] : unused_) release(block);
  unused_.clear();
  return before - stats_.cached;
}

std::uint64_t CachingAllocator::release_reserve() {
  std::vector<Block*> whole;
  for (Block* block : large_) {
    if (block->reserved && block->is_whole()) whole.push_back(block);
  }
  if (!whole.empty()) source_.synchronize();
  std::uint64_t bytes = 0;
  for (Block* block : whole) {
    bytes += block->bytes;
    release(block);
  }
  reserved_ -= bytes;
  reserved_free_ -= bytes;
  return bytes;
}

void CachingAllocator::enforce_cache_limit() {
  auto beyond = [&] { return stats_.cached - reserved_free_ > cache_limit_ && !unused_.empty(); };
  if (!beyond() || all_allocators().leaving) return;
  try {
    source_.synchronize();
  } catch (const Error&) {
    return;  // A device that is lost says so to whoever next waits for it; destructors of tensors come here.
  }
  while (beyond()) {
    release(unused_.begin()->second);
    unused_.erase(unused_.begin());
  }
}

void CachingAllocator::forget_cache_limits() { all_allocators().leaving = true; }

std::uint64_t CachingAllocator::empty_cache() {
  std::lock_guard lock(mutex_);
  return release_free_segments();
}

void CachingAllocator::set_cache_limit(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  read_settings();
  cache_limit_ = bytes;
  enforce_cache_limit();
}

std::uint64_t CachingAllocator::cache_limit() {
  std::lock_guard lock(mutex_);
  read_settings();
  return cache_limit_;
}

void CachingAllocator::reserve(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  read_settings();
  if (bytes == 0) release_reserve();
  reserve_locked(bytes);
}

void CachingAllocator::reserve_locked(std::uint64_t bytes) {
  if (bytes <= reserved_) return;
  constexpr std::size_t kPage = 4096;
  std::string why;
  std::vector<Segment> taken;
  std::uint64_t missing = bytes - reserved_, got = 0;
  bool enough = missing <= kMostBytes;
  if (enough) missing = round_up(static_cast<std::size_t>(missing), kLargeUnit);
  if (const std::uint64_t left = source_.available(); enough && missing > left) {
    enough = false;
    why = fmt::format("{} are available", readable_bytes(left));
  }
  for (std::uint64_t piece = missing; enough && got < missing;) {
    Segment segment;
    piece = std::min(piece, missing - got);
    const std::uint64_t limit = memory_limit();
    if (stats_.reserved() + got + piece > limit) {
      why = fmt::format("ETNA_MEMORY_LIMIT is {}", readable_bytes(limit));
      enough = false;
    } else if (source_.allocate(piece, segment, why)) {
      taken.push_back(segment);
      got += segment.bytes;
    } else {
      piece = round_up(static_cast<std::size_t>(piece / 2), kLargeUnit);
      enough = piece >= kLargeSegment;
    }
  }
  if (!enough) {
    for (const Segment& segment : taken) source_.release(segment);
    throw OutOfMemory(fmt::format("{}: no room to reserve {} ({}){}{}; reserve less, or end what else uses the device",
                                  device_.str(), readable_bytes(bytes), stats_.str(), why.empty() ? "" : ": ", why));
  }
  for (const Segment& segment : taken) {
    for (std::size_t at = 0; segment.host != nullptr && at < segment.bytes; at += kPage) segment.host[at] = std::byte{};
    large_.insert(new Block{.owner = this, .segment = segment, .offset = 0, .bytes = segment.bytes, .reserved = true});
  }
  stats_.cached += got;
  reserved_ += got;
  reserved_free_ += got;
}

std::uint64_t CachingAllocator::reserved() const {
  std::lock_guard lock(mutex_);
  return reserved_;
}

std::uint64_t CachingAllocator::trim_when_idle(double seconds) {
  const double now = os::steady_seconds();
  AllAllocators& all = all_allocators();
  std::lock_guard all_lock(all.mutex);
  std::uint64_t bytes = 0;
  for (CachingAllocator* one : all.list) {
    std::lock_guard lock(one->mutex_);
    const std::uint64_t calls = one->stats_.hits + one->stats_.misses + one->frees_;
    if (calls != one->seen_calls_ || one->seen_at_ < 0) {
      one->seen_calls_ = calls;
      one->seen_at_ = now;
    }
    if (now - one->seen_at_ >= seconds) bytes += one->release_free_segments();
  }
  return bytes;
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
