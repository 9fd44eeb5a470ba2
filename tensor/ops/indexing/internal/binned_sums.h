#pragma once

#include <cstdint>

#include <etna/tensor/op.h>

/// Sums of many numbers into a list on a GPU, without sorting their places: shaders/indexing/binned_sums.comp.
namespace etna::indexing {

/// Whether add_in_bins() takes so many numbers for so many elements, and is faster than sorting.
bool can_add_in_bins(const Tensor& y, std::int64_t numbers);
/// y[places[i]] += x[i]. The sum of what goes to one element is rounded once, to a float, then added; the bits do not
/// depend on the order in which threads run. @param y, x floating, not f64, contiguous @param places i32 within y
void add_in_bins(const OpCall& call, const Tensor& y, const Tensor& places, const Tensor& x);

}  // namespace etna::indexing
