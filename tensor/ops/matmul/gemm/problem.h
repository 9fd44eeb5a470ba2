#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/cut.h>

/// What every launcher of a product on a GPU gets: the plain kernel, those for matrix units, and ready-made machine code.
namespace etna::product {

/// What is done to a product before it is stored:
///     t = scale · scale_by · (a·b) + bias;   pre ← t;   y ← act(t) + residual,   or with derivative_at   y ← t · act'(derivative_at) + residual.
/// All of it in f32 (f64 where the operands are f64), rounded once for each tensor written.
struct Epilogue {
  float scale = 1;
  Tensor scale_by = {};  ///< one f32 on the device, multiplied in without a host read: a loss scale, 1/count
  Tensor bias = {};      ///< [N]
  Activation activation = Activation::none;
  Tensor pre = {};  ///< [..., M, N], written where defined: t before the activation
  Tensor derivative_at =
      {};                ///< [..., M, N], where defined: t is multiplied by activation'(this); not together with `pre`
  Tensor residual = {};  ///< [..., M, N], added last; may be y itself (y += ...), for gradients that accumulate

  /// The product is stored as it is, but for the dtype.
  bool empty() const {
    return scale == 1 && !scale_by.defined() && !bias.defined() && activation == Activation::none && !pre.defined() &&
           !derivative_at.defined() && !residual.defined();
  }
};

/// A matrix operand in memory: rows one behind the other, or, transposed, columns.
struct Operand {
  std::uint64_t address = 0;
  bool transposed = false;
  std::int64_t leading = 1;  ///< elements from one stored row (or column) to the next
  std::array<std::int64_t, 2> strides =
      {};  ///< elements between matrices, of the outer and inner batch dimension; 0: repeated
};

/// A matrix as large as the result. Its last dimension has stride 1, and the matrices of a batch lie m rows apart.
struct Rows {
  std::uint64_t address = 0;  ///< 0: there is none
  DType dtype = DType::f32;
  std::int64_t leading = 0;  ///< elements from row to row
};

/// One product, or a batch of them in two dimensions, in numbers: y[m, n] = epilogue(a[m, k] · b[k, n]). n, m and k are above 0.
struct Problem {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t outer = 1, inner = 1;  ///< the batch
  DType dtype = DType::f32;           ///< of a and b: f32, f16, bf16 or i8
  Operand a, b;
  Rows y, pre, derivative_at, residual;
  std::uint64_t bias = 0, scale_by = 0;  ///< 0: none
  DType bias_dtype = DType::f32;
  float scale = 1;
  Activation activation = Activation::none;

  /// How to cut it, where that was measured for this kernel; else the kernel chooses.
  std::optional<Cut> cut = {};

  /// The tensors behind the addresses, for hazards: null where there is none.
  std::array<const Tensor*, 6> reads = {};   ///< a, b, bias, derivative_at, residual, scale_by
  std::array<const Tensor*, 2> writes = {};  ///< y, pre

  std::int64_t matrices() const { return outer * inner; }
  Device device() const { return writes[0]->device(); }
};

/// The launchers, in the order in which on_gpu() asks them. Each records dispatches and says true, or says false where it has
/// no kernel for the problem on this device, having recorded nothing.
bool launch_cubin(const OpCall& call, const Problem& problem);
bool launch_coopmat(const OpCall& call, const Problem& problem);
bool launch_coopmat2(const OpCall& call, const Problem& problem);
bool launch_plain(const OpCall& call, const Problem& problem);

}  // namespace etna::product
