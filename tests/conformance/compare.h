#pragma once

#include <string>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::conformance {

/// Allowed error of values relative to the f64 ones, in units of max(|wanted|, their root mean square).
double value_bound(DType run, DType result);
/// The same for gradients, which pass through several ops that each round.
double gradient_bound(DType run);

struct Comparison {
  double error = 0;   ///< the largest error; infinity if a NaN, an infinity or a whole number differs
  std::string worst;  ///< "element 3: 1.25, wanted 1.5"
};
/// @param got on the CPU. NaN matches only NaN. Infinities match by sign; a wanted value that `got`'s dtype cannot
/// represent counts as infinite. Whole numbers and bool must be equal.
/// @param smallest if all values are tiny, the magnitude that errors are relative to
Comparison compare(const Tensor& got, const std::vector<double>& wanted, double smallest = 1e-3);

/// Root mean square of the finite values; 0 if there are none.
double typical(const std::vector<double>& values);

}  // namespace etna::conformance
