#pragma once

#include <cstdint>
#include <optional>

#include <etna/tensor/tensor.h>

namespace etna {

/// How a bag's rows become one.
enum class BagMode { sum, mean, max };

struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  bool include_last_offset = false;              ///< the last offset is the end of the last bag, not a beginning
  std::optional<std::int64_t> padding_idx = {};  ///< a row that no bag counts and that gets no gradient
};

/// The sum, mean or maximum of the rows of a table that belong to each bag; 0 for a bag without rows.
/// @param weight [rows, dim] @param index [B, N] i64 or i32, a bag a row; or [N] with offsets
/// @param offsets [B], i64 or i32, rising: where each bag begins in `index`, the first at 0. Not read on the host, so
/// not checked. The maximum of bags with offsets needs B·N·dim elements of memory.
/// @param per_sample_weights of index's shape: factors of the rows; with sum only
/// @return [B, dim] @throws ShapeError, Error
Tensor embedding_bag(const Tensor& weight, const Tensor& index, const Tensor& offsets = {},
                     const EmbeddingBagOptions& options = {}, const Tensor& per_sample_weights = {});

}  // namespace etna
