#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <etna/tensor/tensor.h>

/// Low-rank adapters of several layers that a file packs into one matrix. Internal.
namespace etna::models {

/// Rows of a matrix in a file.
struct RowRange {
  std::int64_t begin, rows;
};

/// A layer's adapter, y + x·Aᵀ·Bᵀ · scale, on the CPU in f32.
struct AdapterPart {
  Tensor a, b;                   ///< [rank, in], [out, rank]
  double scale;                  ///< the factor of the adapter
  std::vector<RowRange> places;  ///< of the layer's rows in the packed matrix, one after the other
};

/// One adapter A [R, in], B [rows, R] for the whole matrix, to be used with the factor alpha / R. If all parts have the
/// same A and factor, that is A; otherwise A is the concatenation of all parts' A, and B is block diagonal. Rows that
/// belong to no part are 0.
/// @param parts at least one, of layers with the same input @return A, B
std::pair<Tensor, Tensor> packed_adapter(const std::vector<AdapterPart>& parts, std::int64_t rows, double alpha);

}  // namespace etna::models
