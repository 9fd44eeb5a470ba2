#pragma once

#include <cstdint>

#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm_params.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>

/// Weights in block formats as arguments of kernels.
namespace etna::quantized {

/// A matrix of blocks on a GPU.
struct BlockMatrix {
  std::uint32_t format = 0;     ///< as shaders/lib/quant_blocks.glsl numbers them
  std::uint32_t aligned = 1;    ///< what divides the address of every block: 16, 8, 4, 2 or 1
  std::uint32_t row_bytes = 0;  ///< from row to row
  std::int64_t rows = 0, columns = 0;
  Pointer at;

  /// A row and those after it.
  BlockMatrix from(std::int64_t row) const;
  /// The scale behind all blocks, or null.
  Pointer tail() const;
};

/// False for integers and f64, and for rows of 4 GiB or more.
bool has_gpu_kernel(const quant::BlockFormat& format, std::int64_t columns);
/// @param format one that has_gpu_kernel()
BlockMatrix block_matrix(const quant::BlockFormat& format, const Tensor& blocks, std::int64_t rows,
                         std::int64_t columns);

/// Queues the decoding of all rows, or of those that `index` selects.
/// @param y of a floating dtype but f64, contiguous, [rows or index.numel(), columns]
/// @param index i64 or i32, contiguous, or undefined
void decode_rows(const OpCall& call, const BlockMatrix& table, const Pointer& tail, const Tensor& y,
                 const Tensor& index = {});

/// quantized_linear for up to kMostRows rows of x, in one dispatch or two. Returns false for activations in bytes where
/// the kernel of bytes does not take the weights.
bool linear_rows(const OpCall& call, std::span<const Tensor> out);
/// Rows, times the weight of a norm where there is one, in bytes. @param x [..., K] @param y as ActivationRows::data
void quantize_to_bytes(const OpCall& call, const Tensor& x, const Tensor& norm, const Tensor& y);
/// Whether gemm_by_blocks() takes x [m, k]: up to 32 dense rows of bf16, on a device with matrix units.
bool has_block_gemm(const Tensor& x, const BlockMatrix& w);
/// y = x · wᵀ and an epilogue, with blocks that are decoded on their way to matrix units.
/// @param y [m, w.rows], rows may lie apart
void gemm_by_blocks(const OpCall& call, const Tensor& x, const BlockMatrix& w, const gemm::Epilogue& e,
                    const Tensor& y);
/// Whether skinny_gemm() takes up to 32 dense rows of `x` with w: on a Hopper GPU.
bool has_skinny_gemm(Device device, DType x, const BlockMatrix& w);
/// The same of x [m, k]. @param w of both weights of a gate, one behind the other
bool has_skinny_gemm(const Tensor& x, const BlockMatrix& w, Activation gate = Activation::none);
/// y = x · wᵀ, or gate(x · w₀ᵀ) ⊙ (x · w₁ᵀ), and an epilogue. @param y [m, n], rows may lie apart
/// @param largest receives what narrow_scaled.comp finds first; for a gate only
void skinny_gemm(const OpCall& call, const Tensor& x, const BlockMatrix& w, Activation gate, const gemm::Epilogue& e,
                 const Tensor& y, Tensor* largest = nullptr);
/// For many: the norm, the weights decoded to x's dtype, a gemm, the gate.
bool linear_by_gemm(const OpCall& call, std::span<const Tensor> out);

/// Rows of x [m, k] as they are multiplied.
struct Rows {
  Tensor x;
  Tensor factor = {};  ///< f32 [1] that undoes a power of two in x; undefined: 1
};

/// Rows, normed where there is a norm, in f16 with a factor or in bf16. @param x [m, k] of any floating dtype but f64
Rows rows_in_16_bits(const OpCall& call, const Tensor& x, const Tensor& norm, double eps, DType dtype);
/// The same into y. @param x f32, contiguous
void rows_in_16_bits(const OpCall& call, const Tensor& x, const Tensor& norm, double eps, const Rows& y);
/// x · [w₀; w₁; ...]ᵀ with the bias, the residual and the SplitSums of an epilogue. The blocks are the call's.
bool multiply_rows(const OpCall& call, const LinearAttrs& a, const Rows& rows, const gemm::Epilogue& behind,
                   const Tensor& y);
/// The same with the bias, the gate and the residual of the call. @param wide whether a gate's products are f32
/// @param sums as in gemm::Epilogue; not for a gate @param largest as in skinny_gemm(), if that is what is called
bool linear_of_rows(const OpCall& call, const LinearAttrs& a, const Rows& rows, bool wide, const Tensor& y,
                    gemm::SplitSums* sums = nullptr, Tensor* largest = nullptr);

}  // namespace etna::quantized
