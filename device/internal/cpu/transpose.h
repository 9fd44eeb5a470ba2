#pragma once

#include <cstdint>

namespace etna::cpu {

/// to[r · to_step + c] = from[c · from_step + r] for r < rows and c < columns, on the calling thread. Elements are
/// moved as bits. Steps are in elements.
/// @param item bytes of an element: 1, 2, 4 or 8
void transpose(const void* from, std::int64_t from_step, void* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns, std::int64_t item);

}  // namespace etna::cpu
