#include <etna/models/internal/text_masks.h>

#include <etna/models/decoder_block.h>
#include <etna/tensor/ops.h>

namespace etna::models {

Tensor position_distances(Device device, std::int64_t steps) {
  const Tensor positions = arange(0, steps, 1, {i64, device});
  return positions.unsqueeze(0) - positions.unsqueeze(1);
}

Tensor same_text(const Tensor& bounds) {
  const Tensor begin = bounds.select(-1, 0);
  return begin.unsqueeze(-1).eq(begin.unsqueeze(-2)).unsqueeze(1);
}

Tensor near_positions(const Tensor& bounds, const Tensor& distances, std::int64_t most) {
  const Tensor near = abs(distances) <= static_cast<double>(most);
  return bounds.defined() ? same_text(bounds) & near : near;
}

/// Of a window in both directions; undefined where there is none, or texts are no longer.
Tensor DecoderAttention::window_mask(std::int64_t steps, Device device, const DecoderCache* cache) const {
  const std::int64_t side = layer_.window / 2;
  if (!config_.bidirectional || layer_.window == 0 || steps <= side + 1) return {};
  WindowMasks own;
  Tensor& mask = (cache != nullptr && cache->windows != nullptr ? *cache->windows : own)[side];
  if (!mask.defined())
    mask = near_positions(cache == nullptr ? Tensor() : cache->documents, position_distances(device, steps), side);
  return mask;
}

}  // namespace etna::models
