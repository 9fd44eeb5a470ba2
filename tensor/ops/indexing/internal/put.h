#pragma once

#include <cstdint>

#include <etna/tensor/op.h>

/// Writing rows to places of a table, the basis of scatter, index_put and their family. A place is the number of a row;
/// a tensor of any rank is a table whose rows are its last dimensions.
namespace etna::indexing {

/// One index tensor of an indexed tensor.
struct LinearIndexAttrs {
  const char* op;       ///< name for the error about an index out of range
  std::int64_t limit;   ///< size of the indexed dimension
  std::int64_t factor;  ///< its stride in the table, in rows
  bool wraps;           ///< negative indices count from the end
  bool wide;            ///< places exceed 31 bits, which only the CPU supports
  Strides strides;      ///< the stride of each coordinate in places
};
/// @param index i64 or i32 @param base undefined, or places to which these are added
/// @return places, of the index's shape: i32, or i64 if wide
Tensor linear_index(const Tensor& index, const Tensor& base, const LinearIndexAttrs& coordinates);

/// 0, 1, 2 ... generated on the device. @return [count] i32, or i64 beyond 31 bits
Tensor numbers(std::int64_t count, Device device);

enum class PutMode : int { replace, add, multiply, largest, smallest };

/// A copy of `table` in which rows of `source` replace, or are combined with, the rows at `places`. Of several rows for
/// one place the last replaces; the other modes combine them in order.
/// @param table [N, W] @param places [M] in [0, N) @param source [M, W] of the table's dtype
/// @param distinct true: no two places are equal, or rows for equal places are equal
Tensor put_rows(const Tensor& table, const Tensor& places, const Tensor& source, PutMode mode, bool distinct = false);
/// The same in place, not recorded. @param table contiguous
void put_rows_(const Tensor& table, const Tensor& places, const Tensor& source, PutMode mode, bool distinct = false);

/// Selects rows of a table. @param table [N, W] @param places [M] in [0, N), all distinct @return [M, W]
Tensor take_distinct(const Tensor& table, const Tensor& places);

/// Places of index[..., j, ...] along `dim` in a contiguous tensor of shape `shape`.
/// @param index of the shape's rank
Tensor places_along(const char* op, const Shape& shape, std::int64_t dim, const Tensor& index, bool wraps = false);
/// Zeros with source[..., j, ...] at index[..., j, ...] of the last dimension; the indices of a row are distinct.
Tensor spread_along_last(const char* op, const Shape& shape, const Tensor& index, const Tensor& source);

}  // namespace etna::indexing
