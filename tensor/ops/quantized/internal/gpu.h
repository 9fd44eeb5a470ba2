#pragma once

#include <cstdint>

#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm_params.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>

/// GPU kernels of weights in block formats, and their arguments.
namespace etna::quantized {

/// A matrix in a block format on a GPU.
struct BlockMatrix {
  std::uint32_t format = 0;     ///< the format's number in shaders/lib/quant_blocks.glsl
  std::uint32_t aligned = 1;    ///< alignment of every block in bytes: 16, 8, 4, 2 or 1
  std::uint32_t row_bytes = 0;  ///< row stride
  std::int64_t rows = 0, columns = 0;
  Pointer at;

  /// The rows from `row` on.
  BlockMatrix from(std::int64_t row) const;
  /// The tensor's scale after all blocks, or null.
  Pointer tail() const;
  /// The points of grids on the device, or null for a format without them.
  Pointer points(Device device) const;
};

/// Whether GPU kernels support a format: not plain integers, f64, or rows of 4 GiB or more.
bool has_gpu_kernel(const quant::BlockFormat& format, std::int64_t columns);
/// @param format must satisfy has_gpu_kernel()
BlockMatrix block_matrix(const quant::BlockFormat& format, const Tensor& blocks, std::int64_t rows,
                         std::int64_t columns);

/// Queues the decoding of all rows, or of those that `index` selects.
/// @param y of a floating dtype but f64, contiguous, [rows or index.numel(), columns]
/// @param index i64 or i32, contiguous, or undefined
void decode_rows(const OpCall& call, const BlockMatrix& table, const Pointer& tail, const Tensor& y,
                 const Tensor& index = {});

/// quantized_linear for up to kMostRows rows of x, in one or two dispatches. Returns false for activations in bytes if
/// quantized_dot.comp does not support the weights.
bool linear_rows(const OpCall& call, std::span<const Tensor> out);
/// Quantizes x, times a norm's weight if there is one, to bytes. @param x [..., K] @param y as ActivationRows::data
/// @param gate, eps of a gated norm (QuantizeInput), whose result is quantized
void quantize_to_bytes(const OpCall& call, const Tensor& x, const Tensor& norm, const Tensor& y,
                       const Tensor& gate = {}, double eps = 0);
/// Whether few rows are quantized to bytes there: for integer dot products of what subgroups add up.
bool multiplies_bytes(Device device);
/// Whether gemm_by_blocks() supports x [m, k]: up to 32 dense rows of bf16, on a device with matrix units.
bool has_block_gemm(const Tensor& x, const BlockMatrix& w);
/// y = x · wᵀ and an epilogue; blocks are decoded on the fly.
/// @param y [m, w.rows], may have a row stride
void gemm_by_blocks(const OpCall& call, const Tensor& x, const BlockMatrix& w, const gemm::Epilogue& e,
                    const Tensor& y);
/// Whether skinny_gemm() supports w and up to 32 dense rows of dtype `x`: on a Hopper GPU.
bool has_skinny_gemm(Device device, DType x, const BlockMatrix& w);
/// The same for x [m, k]. @param w for a gate, both weights in consecutive memory
bool has_skinny_gemm(const Tensor& x, const BlockMatrix& w, Activation gate = Activation::none);
/// y = x · wᵀ, or gate(x · w₀ᵀ) ⊙ (x · w₁ᵀ), and an epilogue. @param y [m, n], may have a row stride
/// @param largest receives the maxima that narrow_scaled.comp needs; for a gate only
void skinny_gemm(const OpCall& call, const Tensor& x, const BlockMatrix& w, Activation gate, const gemm::Epilogue& e,
                 const Tensor& y, Tensor* largest = nullptr);
/// quantized_linear for many rows: applies the norm, decodes the weights to x's dtype, and calls a gemm and the gate.
bool linear_by_gemm(const OpCall& call, std::span<const Tensor> out);

/// x [m, k] as the gemm reads it.
struct Rows {
  Tensor x;
  Tensor factor = {};  ///< f32 [1] that undoes a power of two in x; undefined: 1
};

/// x, normed if there is a norm, in f16 with a factor or in bf16. @param x [m, k] of any floating dtype but f64
Rows rows_in_16_bits(const OpCall& call, const Tensor& x, const Tensor& norm, double eps, DType dtype);
/// The same into y. @param x f32, contiguous
void rows_in_16_bits(const OpCall& call, const Tensor& x, const Tensor& norm, double eps, const Rows& y);
/// x · [w₀; w₁; ...]ᵀ with the bias, the residual and the SplitSums of an epilogue. The weights are those of the call.
bool multiply_rows(const OpCall& call, const LinearAttrs& a, const Rows& rows, const gemm::Epilogue& behind,
                   const Tensor& y);
/// y = gate(left half) ⊙ right half + residual, in slices whose element indices fit in 32 bits.
/// @param gate_and_up [rows, 2 N] @param residual [rows, N] or undefined @param y [rows, N]
void apply_gate(const OpCall& call, Activation gate, const Tensor& gate_and_up, const Tensor& residual,
                const Tensor& y);
/// The same with the bias, the gate and the residual of the call. @param wide whether the operands of a gate are f32
/// @param sums as in gemm::Epilogue; not for a gate @param largest as in skinny_gemm(), if that is called
bool linear_of_rows(const OpCall& call, const LinearAttrs& a, const Rows& rows, bool wide, const Tensor& y,
                    gemm::SplitSums* sums = nullptr, Tensor* largest = nullptr);

}  // namespace etna::quantized
