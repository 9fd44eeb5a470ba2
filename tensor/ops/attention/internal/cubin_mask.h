#pragma once

#include <optional>

#include <etna/tensor/ops/attention/internal/attention.h>
#include <etna/tensor/ops/attention/internal/cubin_launch.h>

namespace etna::attention {

/// A mask as attention's kernels for Hopper read it: hopper::AttentionMask of shaders/sm90/attention_mask.cuh. One
/// without anything says that there is no mask.
struct CubinMask {
  Tensor spans = {}, open = {}, bits = {}, values = {};
  std::int64_t batch = 0, heads = 0;  ///< of masks; 1 where all share one
  std::int64_t query_blocks = 0, key_blocks = 0, words = 0;

  void append_to(CubinParameters& p) const;
};
/// Enqueues the kernel that reads the mask. @param across for gradients, where rows are keys
/// @return nothing if the mask is too large
std::optional<CubinMask> cubin_mask(const OpCall& call, const Inputs& in, bool across);

}  // namespace etna::attention
