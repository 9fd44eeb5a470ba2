#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace etna {

/// A file of the cache folder. It is either complete and undamaged, or treated as missing. Several processes may write
/// it at once; the last one wins.
using CacheMagic = std::array<char, 8>;

/// @return the file's bytes; empty where it is missing, truncated, damaged or of another kind
std::vector<char> read_cache_file(const std::filesystem::path& file, const CacheMagic& magic);

/// Writes a temporary file next to `file` and renames it. A full or read-only folder is not an error.
void write_cache_file(const std::filesystem::path& file, const CacheMagic& magic, std::span<const char> bytes);

/// FNV-1a, 64 bits.
std::uint64_t cache_sum(std::span<const char> bytes, std::uint64_t seed = 14695981039346656037ull);

}  // namespace etna
