#pragma once

#include <initializer_list>

#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm_params.h>

/// The GPU side of an epilogue: the arguments of shaders/lib/epilogue.glsl and shaders/sm90/epilogue.cuh.
namespace etna::gemm {

/// The arguments that describe the outputs and the epilogue (EPILOGUE_PUSH).
Arguments epilogue_arguments(const GemmParams& p);
/// The same for split-K: f32 sums [split_k, matrices, m, n]; add_split_k() applies the epilogue to them.
Arguments partial_sum_arguments(const Tensor& partial, std::int64_t n);

/// Specialization constants of an epilogue: its flags and dtypes, and the vector width that suits the alignment and
/// stride of all its tensors.
struct EpilogueSpec {
  std::uint32_t flags = 0;
  DType y = f32, bias = f32, aux = f32, residual = f32;
  std::int64_t width = 1;

  explicit EpilogueSpec(const GemmParams& p);
  static EpilogueSpec partial_sums(const Tensor& partial, std::int64_t n);

 private:
  EpilogueSpec() = default;
};

/// Number of elements that can be loaded at once: 4, 2 or 1, or more up to `widest`. All of `strides` must keep the
/// alignment. The last vector of a row may extend past its end, into the padding.
std::int64_t vector_width(std::uint64_t address, DType dtype, std::initializer_list<std::int64_t> strides,
                          std::int64_t widest = 4);

/// The widest vector up to `width` that divides n.
inline std::int64_t dividing_width(std::int64_t width, std::int64_t n) {
  while (n % width != 0) width /= 2;
  return width;
}

/// Adds the partial sums in order and applies the epilogue; if the caller asked for the sums, leaves that to it.
void add_split_k(const OpCall& call, const GemmParams& p, const Tensor& partial, std::int64_t split_k);

/// An RMS norm after a gemm. Its rows are f16 or bf16; for f16, they are scaled by a power of two, and `factor` undoes
/// that.
struct NormAfter {
  Tensor norm;    ///< [n]
  Tensor rows;    ///< [m, n], written
  Tensor factor;  ///< f32 [1], written; undefined for bf16
  double eps = 0;
};

/// Adds up a gemm's partial sums, applies its epilogue and normalizes the rows of the result, which is f32, in one
/// dispatch.
void reduce_and_norm(const OpCall& call, const SplitSums& sums, const NormAfter& norm);

}  // namespace etna::gemm
