#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace etna::graph {

/// A block of bytes and the time it is needed: from `first` to `last`, both included. Blocks needed at the same time
/// never share bytes.
struct Lifetime {
  std::size_t bytes = 0;
  std::uint32_t first = 0, last = 0;
};

/// Where each block is placed. A chunk is one allocation; there are several because drivers limit the size of one.
struct MemoryPlan {
  struct Place {
    std::uint32_t chunk = 0;
    std::size_t offset = 0;
  };
  std::vector<Place> places;        ///< of each lifetime, in the order given
  std::vector<std::size_t> chunks;  ///< bytes of each

  std::size_t planned = 0;  ///< of all chunks
  std::size_t live = 0;     ///< the most needed at one time: a lower bound for any plan
  std::size_t naive = 0;    ///< total without sharing
};

/// Greedy by size, as for neural networks' buffers (Pisarchyk & Lee 2020, "Efficient memory management for deep neural
/// net inference"): places the largest block first, each in the tightest gap between the blocks whose lifetimes overlap
/// its own. Offsets are multiples of 256.
/// @param largest_chunk limit for the size of a chunk, exceeded only by a single block that is larger
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, std::size_t largest_chunk);

}  // namespace etna::graph
