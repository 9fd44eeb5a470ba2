#pragma once

#include <etna/tensor/op.h>

/// The machinery behind sum, mean, max and the other reductions.
namespace etna::reduce {

/// Shared with shaders/reduce.comp.
enum class Kind : int { sum, mean, prod, max, min, argmax, argmin, logsumexp, var };

struct Attributes {
  Kind kind = Kind::sum;
  Dims dims;  ///< reduced ones, sorted, none twice
  bool keepdim = false;
  int correction = 0;   ///< var divides by n - correction
  bool widens = false;  ///< sum: f16 and bf16 give f32
};

/// A reduction as two nested iterations over x: kept elements in the order of the output, and for each the reduced ones
/// in row-major order. Neighbouring dimensions are merged where x's strides allow it.
struct Plan {
  Shape kept, reduced;
  Strides kept_strides, reduced_strides;
  std::int64_t outputs = 1, length = 1;  ///< elements of the two iterations

  Plan(const Tensor& x, const Dims& dims);
  /// Neighbouring outputs lie side by side in x and neighbouring reduced elements do not: columns are summed, not rows.
  bool columns() const;
};

void cpu(const OpCall& call, std::span<Tensor> out);
bool on_gpu(const OpCall& call, std::span<Tensor> out);

/// Sums over the rows of a matrix, by shaders/column_sums.comp. False where x is none, or too small for it; nothing was
/// recorded then.
bool column_sums(const OpCall& call, const Tensor& x, const Plan& plan, Tensor& y);

}  // namespace etna::reduce
