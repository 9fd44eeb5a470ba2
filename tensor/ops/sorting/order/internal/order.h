#pragma once

#include <cstdint>

#include <etna/tensor/op.h>

/// The permutation that sorts a row: used by sort, topk and all ops that bring equal indices together. Equal elements
/// keep their order; NaN is the largest, and equal to NaN; 0 equals -0.
namespace etna::order {

/// topk sorts rows longer than this instead of selecting from them; it also sorts to keep more elements than this.
inline constexpr std::int64_t kMostSelected = 1024;

/// @param rows [..., n], contiguous, on the CPU
/// @param kept number of elements wanted of each sorted row, in [0, n]
/// @param order receives [..., kept] positions in the rows
void order_cpu(const Tensor& rows, bool descending, std::int64_t kept, std::int64_t* order);

/// Sorts short rows, each in one workgroup.
/// @param rows [..., n], contiguous, on a GPU, of at least one element and not f64 @param kept at least 1
/// @param values, indices [..., kept], contiguous @return false for rows that order_gpu() serves
bool sort_rows_gpu(const OpCall& call, const Tensor& rows, bool descending, std::int64_t kept, const Tensor& values,
                   const Tensor& indices);

struct SortedKeys {
  Tensor keys, order;  ///< i32
};

/// The order of rows that sort_rows_gpu() does not take.
/// @return order [rows, kept]; keys of the same elements (shaders/lib/sort_keys.glsl), or undefined
SortedKeys order_gpu(const OpCall& call, const Tensor& rows, bool descending, std::int64_t kept);

/// A stable sort of integers in [0, limit).
/// @param keys [n] i32, contiguous, on a GPU, n > 0 @return [n] each
SortedKeys sort_keys_gpu(const OpCall& call, const Tensor& keys, std::int64_t limit);

}  // namespace etna::order
