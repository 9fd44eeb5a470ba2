#pragma once

#include <etna/tensor/op.h>

/// The implementation of sum, mean, max and the other reductions.
namespace etna::reduce {

/// Numbered as in shaders/reduce/reduce.comp.
enum class Kind : int { sum, mean, prod, max, min, argmax, argmin, logsumexp, var, std, norm };

struct ReduceAttrs {
  Kind kind = Kind::sum;
  Dims dims;  ///< the reduced dimensions, sorted and distinct
  bool keepdim = false;
  int correction = 0;   ///< var and std divide by n - correction
  bool widens = false;  ///< sum: f16 and bf16 give f32
};

/// A reduction as two nested iterations over x: the outer over kept elements in the order of the output, the inner over
/// the reduced elements in row-major order. Adjacent dimensions are merged if x's strides allow it.
struct Plan {
  Shape kept, reduced;
  Strides kept_strides, reduced_strides;
  std::int64_t outputs = 1, length = 1;  ///< elements of the two iterations

  Plan(const Tensor& x, const Dims& dims);
  /// True if neighbouring outputs are adjacent in x and neighbouring reduced elements are not: the reduction sums
  /// columns, not rows.
  bool columns() const;
};

/// √Σ x². @throws DtypeError unless x is floating
Tensor root_of_squares(const Tensor& x, const Dims& dims, bool keepdim);

void cpu(const OpCall& call, std::span<Tensor> out);
bool gpu(const OpCall& call, std::span<Tensor> out);

/// Sums over the rows of a matrix with shaders/reduce/column_sums.comp. Returns false, having queued nothing, if x is
/// not a matrix or is too small.
bool column_sums(const OpCall& call, const Tensor& x, const Plan& plan, Tensor& y);

}  // namespace etna::reduce
