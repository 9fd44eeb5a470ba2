#pragma once

#include <etna/device/cpu/gemm/blas.h>
#include <etna/tensor/ops/matmul/gemm/gemm_params.h>

namespace etna::gemm {

/// An epilogue on the CPU, done to a part of the sums by the thread that made them. All of it is in T, float or double,
/// in rows of vectors a chunk at a time, and rounded once for each tensor written.
template <typename T>
class PartEpilogue {
 public:
  /// @param sums scale · (a·b), rows `leading` apart, n to a row; they are overwritten
  /// @param y where results go; undefined where they stay in `sums`. Its rows, and those of e.preactivation, are evenly
  /// spaced.
  /// @param residual e.residual, or undefined where the sums have it in them
  PartEpilogue(const Epilogue& e, const Tensor& residual, T* sums, std::int64_t leading, const Tensor& y);

  /// False where a part is left as it is.
  bool needed() const;
  void operator()(const cpu::Part& part) const;

 private:
  void chunk(std::int64_t row, std::int64_t column, std::int64_t n) const;

  /// A matrix as large as the result.
  struct Aux {
    Tensor x;
    std::int64_t leading = 0;  ///< elements from row to row
  };
  static Aux aux(const Tensor& x);
  static const T* read(const Aux& from, std::int64_t row, std::int64_t column, std::int64_t n, T* buffer);
  static void write(const Aux& to, std::int64_t row, std::int64_t column, std::int64_t n, const T* values);

  Activation activation_;
  Tensor bias_;
  Aux derivative_at_, residual_, preactivation_, y_;
  T* sums_;
  std::int64_t leading_;
};

}  // namespace etna::gemm
