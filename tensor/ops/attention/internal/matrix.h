#pragma once

#include <array>
#include <initializer_list>
#include <optional>

#include <etna/device/kernel.h>
#include <etna/tensor/ops/attention/internal/attention.h>

/// Attention on matrix units: the choice of kernel and tile sizes.
namespace etna::attention {

/// Ordered from the most portable to the most specialized.
enum class KernelVariant { plain, coopmat, coopmat2, cubin };

/// The variant that ETNA_ATTENTION allows, with the plain one as fallback; none: any available variant.
/// @throws Error if ETNA_ATTENTION has an unknown value
std::optional<KernelVariant> wanted_variant();

enum class Pass { forward, dq, dkv, paged, paged_q8 };

/// A kernel of shaders/attention_coopmat*.comp with its specialization constants, except the mask's strides. A
/// workgroup owns `tile` rows: queries, or keys in Pass::dkv.
struct MatrixKernel {
  const gpu::Shader* shader;
  std::uint32_t subgroup_size, subgroups, rows, blocks, columns, m, mask_dtype;

  std::uint32_t tile() const { return subgroups * rows * m; }
  std::uint32_t threads() const { return subgroups * subgroup_size; }
  std::array<std::uint32_t, 7> spec() const { return {threads(), subgroups, rows, blocks, columns, m, mask_dtype}; }
  std::uint32_t shared_bytes(Pass pass, KernelVariant variant) const;
};

/// The best kernel that the device, the build and ETNA_ATTENTION allow. None for f32, since matrix units would round
/// its sums, or if rows do not start at multiples of 16 bytes: the plain kernels handle those.
/// @param operands the tensors the kernel reads, [B, H, T, D]
/// @throws Error if ETNA_ATTENTION has an unknown value
std::optional<MatrixKernel> matrix_kernel(Pass pass, const Inputs& in, double scale, std::uint32_t mask_dtype,
                                          std::initializer_list<const Tensor*> operands);

/// The same for the queries of prompts over a paged cache. The caller has checked that rows begin at multiples of 16
/// bytes. @param q, cache dtypes: both the same, or bf16 and u8 for Q8_0 @param rows queries of a sequence, times the
/// heads that share keys
std::optional<MatrixKernel> paged_matrix_kernel(Device device, DType q, DType cache, std::int64_t rows,
                                                std::int64_t size);

}  // namespace etna::attention
