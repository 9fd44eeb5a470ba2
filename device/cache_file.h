#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace etna {

/// A file of the cache folder: whole and undamaged, or not there. Several processes may write it at once; the last
/// one's is kept.
using CacheMagic = std::array<char, 8>;

/// @return its bytes; empty where it is missing, cut short, damaged or of another kind
std::vector<char> read_cache_file(const std::filesystem::path& file, const CacheMagic& magic);

/// Written beside its place and moved there. That a folder is full or read-only is no error.
void write_cache_file(const std::filesystem::path& file, const CacheMagic& magic, std::span<const char> bytes);

/// FNV-1a, 64 bits.
std::uint64_t cache_sum(std::span<const char> bytes, std::uint64_t seed = 14695981039346656037ull);

}  // namespace etna
