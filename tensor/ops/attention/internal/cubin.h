#pragma once

#include <cstdint>
#include <optional>

#include <etna/tensor/ops/attention/internal/attention.h>

/// Attention with Hopper's warpgroup instructions: the kernels of shaders/sm90/attention_kernels.cuh, f16 and bf16.
namespace etna::attention {

/// @param y the result as [B, H, T, D] @param logsumexp dense [B, H, T]
/// @return false if the device or the build has no such kernel, or it does not take these inputs
bool launch_cubin(const OpCall& call, const Inputs& in, const Tensor& y, const Tensor& logsumexp);

/// @param dq, dk, dv as [B, H, T, D] or [B, G, S, D]; dk and dv of the same strides @return as above
bool launch_cubin_gradients(const OpCall& call, const Inputs& in, const Kept& kept, const Tensor& dq, const Tensor& dk,
                            const Tensor& dv);

/// A prompt's queries over a paged cache; what the op calls q, keys, and so on.
struct PagedPrompt {
  Tensor q, keys, values, table, positions, y;
  Tensor parts;  ///< [B * T, G, chunks, H / G, D + 2] f32: weighted sums, maximum, sum of weights; of several chunks
  double scale = 0, softcap = 0;
  std::uint32_t limit = 0;  ///< the window, or the chunk with the bit that shaders/lib/paged.glsl knows it by
  std::int64_t chunks = 1, least = 0;  ///< into how many parts keys are divided; the fewest positions of one
};
/// How the kernel divides its work: each of its blocks, one a compute unit, takes tile after tile.
struct PagedTiles {
  std::int64_t tiles = 0;      ///< of all queries, for each chunk of keys
  std::int64_t positions = 0;  ///< of keys that a block works on at a time
};
/// @return nothing where launch_cubin_prompt() does not take it
std::optional<PagedTiles> cubin_prompt_tiles(const PagedPrompt& prompt);
/// Attends to all chunks. If there is one, y is done.
void launch_cubin_prompt(const OpCall& call, const PagedPrompt& prompt);

/// Whether ETNA_ATTENTION asks for such kernels, and the device and the build have them for heads of this size.
bool has_cubin(Device device, DType t, std::int64_t size);

/// f32 by bf16 parts: the kernels of shaders/sm90/attention_f32.cu. Whether there are any for heads of this size, as
/// above.
bool has_f32_cubin(Device device, std::int64_t size);
/// Results count only if all numbers of the inputs split into parts, which the device finds out. The caller lets plain
/// kernels follow that compute all again if not.
/// @return two words, both 0 if all numbers split; undefined: as launch_cubin() returns false, or the work is too small
Tensor launch_f32_cubin(const OpCall& call, const Inputs& in, const Tensor& y, const Tensor& logsumexp);
/// The same of gradients. @param dq, dk, dv as for launch_cubin_gradients()
Tensor launch_f32_cubin_gradients(const OpCall& call, const Inputs& in, const Kept& kept, const Tensor& dq,
                                  const Tensor& dk, const Tensor& dv);

}  // namespace etna::attention
