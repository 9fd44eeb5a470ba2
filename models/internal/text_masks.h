#pragma once

#include <cstdint>

#include <etna/tensor/tensor.h>

/// Which positions of texts see each other, where a kernel's own limits do not suffice.
namespace etna::models {

/// j - i for query i and key j. @return [T, T] i64
Tensor position_distances(Device device, std::int64_t steps);

/// Whether positions are in the same text. @param bounds of document_bounds(), [B, T, 2] @return bool [B, 1, T, T]
Tensor same_text(const Tensor& bounds);

/// Whether positions of the same text are at most `most` apart.
/// @param bounds as for same_text(); undefined: each row is one text @return bool [B, 1, T, T] or [T, T]
Tensor near_positions(const Tensor& bounds, const Tensor& distances, std::int64_t most);

}  // namespace etna::models
