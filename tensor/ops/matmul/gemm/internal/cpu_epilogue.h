#pragma once

#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm_params.h>

namespace etna::gemm {

/// A gemm's epilogue on the CPU, applied to a tile of the sums by the thread that computed them. Computes in T, float
/// or double, with vectors over one chunk of a row at a time, and rounds once for each tensor written.
template <typename T>
class TileEpilogue {
 public:
  /// @param sums scale · (a·b), n per row, with row stride `leading`; overwritten
  /// @param y the result; undefined if it stays in `sums`. The rows of y and of e.preactivation are evenly spaced.
  /// @param residual e.residual, or undefined if the sums already include it
  TileEpilogue(const Epilogue& e, const Tensor& residual, T* sums, std::int64_t leading, const Tensor& y);

  /// False if the epilogue leaves the sums unchanged.
  bool needed() const;
  void operator()(const cpu::ResultTile& tile) const;

 private:
  void chunk(std::int64_t row, std::int64_t column, std::int64_t n) const;

  /// A matrix of the result's size.
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
