#pragma once

#include <cstdint>

/// Addresses that a graph gives to storages before it plans their memory (docs/decisions/004-placeholder-addresses.md).
namespace etna::graph {

/// Device addresses are canonical: their upper bits, above the 48 or 57 that are translated, are all equal, so none has
/// 01 as its highest two bits.
inline constexpr std::uint64_t kFirstPlaceholder = std::uint64_t{1} << 62;
inline constexpr std::uint64_t kPlaceholders = std::uint64_t{1} << 60;

/// True for an address that a graph gave out and that never got memory.
constexpr bool is_placeholder(std::uint64_t address) { return address - kFirstPlaceholder < kPlaceholders; }

}  // namespace etna::graph
