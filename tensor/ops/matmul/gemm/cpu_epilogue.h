#pragma once

#include <etna/device/cpu/blas.h>
#include <etna/tensor/ops/matmul/gemm/problem.h>

namespace etna::product {

/// An epilogue on the CPU, done to a part of the sums by the thread that made them. All of it is in T, float or double, in rows of
/// vectors a piece at a time, and rounded once for each tensor written.
template <typename T>
class PartEpilogue {
 public:
  /// @param sums scale · (a·b), rows `leading` apart, n to a row; they are overwritten
  /// @param y where results go; undefined where they stay in `sums`. Its rows, and those of e.pre, are evenly spaced.
  /// @param residual e.residual, or undefined where the sums have it in them
  PartEpilogue(const Epilogue& e, const Tensor& residual, T* sums, std::int64_t leading, const Tensor& y);

  /// False where a part is left as it is.
  bool needed() const;
  void operator()(const cpu::Part& part) const;

 private:
  void piece(std::int64_t row, std::int64_t column, std::int64_t n) const;

  /// A matrix as large as the result, element by element beside it.
  struct Beside {
    Tensor x;
    std::int64_t leading = 0;  ///< elements from row to row
  };
  static Beside beside(const Tensor& x);
  static const T* read(const Beside& from, std::int64_t row, std::int64_t column, std::int64_t n, T* buffer);
  static void write(const Beside& to, std::int64_t row, std::int64_t column, std::int64_t n, const T* values);

  Activation activation_;
  Tensor bias_;
  Beside derivative_at_, residual_, pre_, y_;
  T* sums_;
  std::int64_t leading_;
};

}  // namespace etna::product
