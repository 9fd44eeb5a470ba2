#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include <etna/tensor/op.h>

/// Shared by the ops that copy by index. They compute nothing, so elements of every dtype are copied as bytes.
namespace etna::indexing {

/// Number of bytes that a thread copies at once: the largest of 16, 8, 4, 2 and 1 that divides all of these sizes and
/// addresses.
std::uint32_t unit(std::initializer_list<std::uint64_t> divided);

/// @throws DtypeError if an index is neither i64 nor i32.
void check_index_dtype(const char* op, const Tensor& index);

/// A contiguous i64 copy of an index on the CPU, with every value checked to be in [0, limit).
/// @throws IndexError naming the first value that is not.
Tensor checked_index(const char* op, const Tensor& index, std::int64_t limit);

/// y[o, k, :] = x[o, index[k], :], where x is [outer, size, inner] and y is contiguous.
struct Selection {
  const Tensor& x;
  const Tensor& index;
  const Tensor& y;
  std::int64_t outer, size, inner;
};
void select_cpu(const OpCall& call, const Selection& selection);
bool select_gpu(const OpCall& call, const Selection& selection);

}  // namespace etna::indexing
