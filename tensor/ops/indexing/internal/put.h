#pragma once

#include <cstdint>

#include <etna/tensor/op.h>

/// Rows written to places of a table: what scatter, index_put and their family are made of. A place is the number of a
/// row; a tensor of any rank is a table of rows of its last dimensions.
namespace etna::indexing {

/// One index tensor of an indexed tensor.
struct LinearIndexAttrs {
  const char* op;       ///< for the error about an index outside
  std::int64_t limit;   ///< size of the indexed dimension
  std::int64_t factor;  ///< its stride in the table, in rows
  bool wraps;           ///< negative indices count from the end
  bool wide;            ///< places beyond 31 bits, as only the CPU has
  Strides strides;      ///< what each coordinate of the index adds to the place
};
/// @param index i64 or i32 @param base undefined, or places to which these are added
/// @return places, of the index's shape: i32, or i64 where wide
Tensor linear_index(const Tensor& index, const Tensor& base, const LinearIndexAttrs& coordinates);

/// 0, 1, 2 ... made on the device. @return [count] i32, or i64 beyond 31 bits
Tensor numbers(std::int64_t count, Device device);

enum class PutMode : int { replace, add, multiply, largest, smallest };

/// A copy of `table` in which rows of `source` replace, or are combined with, the rows at `places`. Of several rows for
/// one place the last replaces; others combine in order.
/// @param table [N, W] @param places [M] in [0, N) @param source [M, W] of the table's dtype
/// @param distinct no two places are equal, or their rows are
Tensor put_rows(const Tensor& table, const Tensor& places, const Tensor& source, PutMode mode, bool distinct = false);
/// The same in place, not recorded. @param table contiguous
void put_rows_(const Tensor& table, const Tensor& places, const Tensor& source, PutMode mode, bool distinct = false);

/// Rows of a table. @param table [N, W] @param places [M] in [0, N), none twice @return [M, W]
Tensor take_distinct(const Tensor& table, const Tensor& places);

/// Places of index[..., j, ...] along `dim` in a contiguous tensor of shape `shape`.
/// @param index of the shape's rank
Tensor places_along(const char* op, const Shape& shape, std::int64_t dim, const Tensor& index, bool wraps = false);
/// A tensor of zeros with source[..., j, ...] at index[..., j, ...] of its last dimension; indices of a row differ.
Tensor spread_along_last(const char* op, const Shape& shape, const Tensor& index, const Tensor& source);

}  // namespace etna::indexing
