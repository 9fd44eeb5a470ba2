#pragma once

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

/// Memory that a kernel needs while it runs: rows in another type, a tile, partial sums.
///
/// Blocks are reused by the thread that returned them. malloc() would give large blocks back to the system; the next
/// malloc() then gets fresh pages, and each costs a page fault and 4 KiB of zeros. A repeated training step should
/// touch no fresh page.
namespace etna::cpu {

namespace scratch {
/// At least `bytes`, aligned to 64. @throws std::bad_alloc
void* take(std::size_t bytes);
/// @param bytes the size given to take(); may be called on any thread
void give_back(void* block, std::size_t bytes) noexcept;
}  // namespace scratch

/// Leaves elements uninitialized unless a value is given.
template <typename T>
struct ScratchAllocator {
  using value_type = T;
  ScratchAllocator() = default;
  template <typename U>
  ScratchAllocator(const ScratchAllocator<U>&) {}
  T* allocate(std::size_t n) {
    static_assert(alignof(T) <= 64);
    if (n > ~std::size_t{0} / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(scratch::take(n * sizeof(T)));
  }
  void deallocate(T* block, std::size_t n) noexcept { scratch::give_back(block, n * sizeof(T)); }
  template <typename U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
  }
  bool operator==(const ScratchAllocator&) const = default;
};

/// Scratch<float> row(n): n uninitialized floats; row(n, 0): zeros.
template <typename T>
using Scratch = std::vector<T, ScratchAllocator<T>>;

}  // namespace etna::cpu
