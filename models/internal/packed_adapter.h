#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <etna/tensor/tensor.h>

/// Low-rank adapters of several layers whose rows a file has in one matrix. Internal.
namespace etna::models {

/// A layer's adapter, y + x·Aᵀ·Bᵀ · scale, on the CPU in f32.
struct AdapterPart {
  Tensor a, b;         ///< [rank, in], [out, rank]
  double scale;        ///< its factor
  std::int64_t begin;  ///< its first row in the matrix
};

/// One adapter A [R, in], B [rows, R] of the whole matrix, to be used with the factor alpha / R. Where all parts have
/// the same A and factor, that is A; else A is all of theirs one below the other, and B has a block for each. Rows of
/// no part are 0.
/// @param parts at least one, of layers with the same input @return A, B
std::pair<Tensor, Tensor> packed_adapter(const std::vector<AdapterPart>& parts, std::int64_t rows, double alpha);

}  // namespace etna::models
