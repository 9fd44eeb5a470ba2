#include <etna/device/internal/cpu/scratch.h>

#include <array>
#include <bit>
#include <new>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ETNA_PLAIN_SCRATCH
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ETNA_PLAIN_SCRATCH
#endif

namespace etna::cpu::scratch {
namespace {

constexpr std::size_t kSmallest = 256;  // bytes per block
constexpr std::align_val_t kAlignment{64};

/// Sizes are powers of two, so that a step's requests fit the blocks that the previous step returned, whichever thread
/// ran its tasks.
std::size_t rounded(std::size_t bytes) { return std::bit_ceil(bytes < kSmallest ? kSmallest : bytes); }

void* from_system(std::size_t bytes) {
  if (bytes > ~std::size_t{0} / 4) throw std::bad_alloc();
  return ::operator new(rounded(bytes), kAlignment);
}

void to_system(void* block) { ::operator delete(block, kAlignment); }

#ifndef ETNA_PLAIN_SCRATCH

constexpr std::size_t kMostKept = std::size_t{64} << 20;  // bytes that a thread keeps
constexpr int kClasses = std::bit_width(kMostKept);

/// A free block stores the pointer to the next free one of its size.
struct Free {
  Free* next;
};

/// True once the thread's Kept is destroyed: blocks that later destructors release go to the system.
thread_local bool ended = false;

struct Kept {
  std::array<Free*, kClasses> blocks{};
  std::size_t bytes = 0;

  ~Kept() {
    ended = true;
    for (Free* block : blocks) {
      while (block != nullptr) to_system(std::exchange(block, block->next));
    }
  }
};

thread_local Kept kept;

std::size_t class_of(std::size_t size) { return static_cast<std::size_t>(std::bit_width(size)) - 1; }

#endif

}  // namespace

// AddressSanitizer should see every allocation and release.
#ifdef ETNA_PLAIN_SCRATCH

void* take(std::size_t bytes) { return from_system(bytes); }
void give_back(void* block, std::size_t) noexcept { to_system(block); }

#else

void* take(std::size_t bytes) {
  if (ended || bytes > kMostKept / 2) return from_system(bytes);
  const std::size_t size = rounded(bytes);
  Free*& first = kept.blocks[class_of(size)];
  if (first == nullptr) return from_system(bytes);
  kept.bytes -= size;
  return std::exchange(first, first->next);
}

void give_back(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  const std::size_t size = rounded(bytes);
  if (ended || size > kMostKept / 2 || kept.bytes + size > kMostKept) return to_system(block);
  Free*& first = kept.blocks[class_of(size)];
  first = ::new (block) Free{first};
  kept.bytes += size;
}

#endif

}  // namespace etna::cpu::scratch
