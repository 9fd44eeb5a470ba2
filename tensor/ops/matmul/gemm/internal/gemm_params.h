#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <etna/device/arguments.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/tiling.h>

/// The arguments of every GPU gemm launcher: the plain kernel, the matrix-unit kernels and the precompiled machine
/// code.
namespace etna::gemm {

struct SplitSums;
struct SoftmaxTiles;

/// The epilogue, applied to a · b before it is stored:
///     t = scale · scale_by · (a · b) + bias;   preactivation ← t
///     y ← act(t) + residual;   with derivative_at   y ← t · act'(derivative_at) + residual
/// Computed in f32 (f64 for f64 operands) and rounded once for each tensor written.
struct Epilogue {
  float scale = 1;
  Tensor scale_by = {};  ///< one f32 factor on the device, so that the host need not read it: a loss scale, 1/count
  Tensor bias = {};      ///< [N]
  Activation activation = Activation::none;
  Tensor preactivation = {};  ///< [..., M, N]; if defined, receives t, before the activation
  /// [..., M, N]; if defined, t is multiplied by activation' of it. Excludes `preactivation`.
  Tensor derivative_at = {};
  Tensor residual = {};  ///< [..., M, N], added last; may be y itself (y += ...), for gradients that accumulate
  SplitSums* sums =
      nullptr;  ///< receives the sums of a gemm that splits k, for the caller to add up; else y is written
  /// y is logits, with room up to a multiple of 16 bytes behind each row, which may be overwritten; receives the state
  /// of their softmax where the kernel computes it.
  SoftmaxTiles* softmax = nullptr;

  /// True if a · b is stored unchanged except for its dtype.
  bool empty() const {
    return scale == 1 && !scale_by.defined() && !bias.defined() && activation == Activation::none &&
           !preactivation.defined() && !derivative_at.defined() && !residual.defined();
  }
};

/// A matrix operand in memory: rows one after the other, or, transposed, columns.
struct Operand {
  Pointer at;
  bool transposed = false;
  std::int64_t leading = 1;  ///< elements from one stored row (or column) to the next
  /// Elements between matrices along the outer and inner batch dimension; 0: repeated.
  std::array<std::int64_t, 2> strides = {};

  void advance(std::int64_t elements, DType dtype) { at += static_cast<std::uint64_t>(elements) * item_size(dtype); }
};

/// A matrix of the result's size. Its last dimension has stride 1; the matrices of a batch follow each other every m
/// rows.
struct Rows {
  Pointer at;  ///< null: absent
  DType dtype = DType::f32;
  std::int64_t leading = 0;  ///< elements from row to row

  void advance(std::int64_t rows) {
    if (at) at += static_cast<std::uint64_t>(rows * leading) * item_size(dtype);
  }
};

/// A gemm, or a batch of them in two dimensions: y[m, n] = epilogue(a[m, k] · b[k, n]). n, m and k are above 0.
struct GemmParams {
  Device device;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t outer = 1, inner = 1;  ///< the batch
  DType dtype = DType::f32;           ///< of a and b: f32, f16, bf16 or i8
  Operand a, b;
  Rows y, preactivation, derivative_at, residual;
  Pointer bias, scale_by;  ///< null: none
  DType bias_dtype = DType::f32;
  float scale = 1;
  Activation activation = Activation::none;

  SplitSums* sums = nullptr;        ///< as Epilogue has it
  SoftmaxTiles* softmax = nullptr;  ///< likewise

  /// The autotuned tiling of this kernel; without one the kernel chooses.
  std::optional<Tiling> tiling = {};

  std::int64_t matrices() const { return outer * inner; }
  /// The epilogue's further matrix, in addition to y and the residual, if any.
  const Rows& aux() const { return preactivation.at ? preactivation : derivative_at; }
};

/// The partial sums that a split-K gemm leaves to the caller.
struct SplitSums {
  GemmParams params;
  Tensor partial;  ///< f32 [splits, matrices, m, n]; undefined: nothing left to add
  std::int64_t splits = 0;
};

/// The state of a softmax over each row, for tiles of columns.
struct SoftmaxTiles {
  Tensor states;  ///< f32 [m, tiles, 3]: maximum, sum of exponentials relative to it, unused; undefined: not computed
};

/// The launchers, in the order in which on_gpu() tries them. Each queues its dispatches and returns true. If it has no
/// kernel for the gemm on this device, it queues nothing and returns false.
bool launch_cubin(const OpCall& call, const GemmParams& params);
bool launch_coopmat(const OpCall& call, const GemmParams& params);
bool launch_plain(const OpCall& call, const GemmParams& params);

/// The batch dimensions that the launcher of this gemm puts into one dispatch.
/// @param params whose device, sizes, dtype and `inner`, all matrices, are set
int batch_dimensions_at_once(const GemmParams& params);

}  // namespace etna::gemm
