#pragma once

#include <string>
#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::conformance {

/// How far values may lie from the f64 ones, in units of max(|wanted|, their root mean square).
double value_bound(DType run, DType result);
/// The same for gradients, which pass several ops that each round.
double gradient_bound(DType run);

struct Comparison {
  double error = 0;   ///< the largest; infinity where NaN, infinity or a whole number differs
  std::string worst;  ///< "element 3: 1.25, wanted 1.5"
};
/// @param got on the CPU. NaN matches NaN only; infinities match by sign, and what `got`'s dtype cannot hold counts as
/// one. Whole numbers and bool must be equal.
/// @param smallest where values are tiny altogether, the size that errors are measured by
Comparison compare(const Tensor& got, const std::vector<double>& wanted, double smallest = 1e-3);

/// Root mean square of the finite values; 0 where there are none.
double typical(const std::vector<double>& values);

}  // namespace etna::conformance
