#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace etna {

/// A run of bytes and when it is needed: from time `first` to time `last`, both included. What is needed at one and the
/// same time never shares bytes.
struct Lifetime {
  std::size_t bytes = 0;
  std::uint32_t first = 0, last = 0;
};

/// Where each run lies. Chunks are allocations of their own, since drivers limit how large one may be.
struct MemoryPlan {
  struct Place {
    std::uint32_t chunk = 0;
    std::size_t offset = 0;
  };
  std::vector<Place> places;        ///< of each lifetime, in the order given
  std::vector<std::size_t> chunks;  ///< bytes of each

  std::size_t planned = 0;  ///< of all chunks
  std::size_t live = 0;     ///< the most that is needed at one time: no plan can do with less
  std::size_t naive = 0;    ///< if nothing shared bytes
};

/// Greedy by size, as for neural networks' buffers (Pisarchyk & Lee 2020, "Efficient memory management for deep neural
/// net inference"): the largest run first, each into the tightest gap among those it meets in time. Offsets are
/// multiples of 256.
/// @param largest_chunk no chunk grows beyond, unless one run alone is larger
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, std::size_t largest_chunk);

}  // namespace etna
