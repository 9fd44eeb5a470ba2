#pragma once

#include <cstdint>

#include <etna/tensor/op.h>

/// Adds many numbers to a list on a GPU, without sorting their places: shaders/indexing/binned_sums.comp.
namespace etna::indexing {

/// True if add_in_bins() supports `numbers` numbers for y's elements, and is faster than sorting.
bool can_add_in_bins(const Tensor& y, std::int64_t numbers);
/// y[places[i]] += x[i]. The sum for each element is rounded once, to a float, then added; the bits do not depend on
/// the order in which threads run. @param y, x floating, not f64, contiguous @param places i32 within y
void add_in_bins(const OpCall& call, const Tensor& y, const Tensor& places, const Tensor& x);

/// True if check_and_add_in_bins() supports it: can_add_in_bins(), and y is not so small that nothing is counted.
bool can_check_in_bins(const Tensor& y, std::int64_t numbers);
/// The same with indices that are still to be checked. @param index i32 or i64, contiguous
void check_and_add_in_bins(const OpCall& call, const Tensor& y, const Tensor& index, const Tensor& x);

}  // namespace etna::indexing
