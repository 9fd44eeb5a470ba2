#pragma once

#include <array>
#include <initializer_list>
#include <optional>

#include <etna/device/kernel.h>
#include <etna/tensor/ops/attention/attention.h>

/// Attention on matrix units: which kernel, in which tiles.
namespace etna::attention {

/// From the one that runs everywhere to the most special.
enum class Tier { plain, coopmat, coopmat2 };

/// The same kernels as under ETNA_ATTENTION=plain|coopmat|coopmat2, for a scope. For tests; for one thread.
class ForcedTier {
 public:
  explicit ForcedTier(Tier tier);
  ~ForcedTier();
  ForcedTier(const ForcedTier&) = delete;
  ForcedTier& operator=(const ForcedTier&) = delete;

 private:
  int before_;
};

enum class Pass { forward, dq, dkv };

/// A kernel of shaders/attention_coopmat*.comp with its specialization constants but those of the mask's strides. A
/// workgroup owns `tile` rows: of queries, in Pass::dkv of keys.
struct MatrixKernel {
  const gpu::Shader* shader;
  std::uint32_t subgroup_size, subgroups, rows, blocks, columns, m, mask_dtype;

  std::uint32_t tile() const { return subgroups * rows * m; }
  std::uint32_t threads() const { return subgroups * subgroup_size; }
  std::array<std::uint32_t, 7> spec() const { return {threads(), subgroups, rows, blocks, columns, m, mask_dtype}; }
  std::uint32_t shared_bytes(Pass pass, Tier tier) const;
};

/// The best one that device, build and ETNA_ATTENTION allow. None for f32, whose sums matrix units would not keep, and
/// where rows do not begin at multiples of 16 bytes: the plain kernels take all.
/// @param operands what the kernel reads, [B, H, T, D]
/// @throws Error where ETNA_ATTENTION holds another word
std::optional<MatrixKernel> matrix_kernel(Pass pass, const Inputs& in, double scale, std::uint32_t mask_dtype,
                                          std::initializer_list<const Tensor*> operands);

}  // namespace etna::attention
