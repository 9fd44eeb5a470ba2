#include <etna/models/decoder.h>
#include <etna/models/internal/decoder_parts.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

// What a decoder does in prompts with images.
namespace etna::models {

const Tensor& ImageChunk::sight(std::int64_t window, std::int64_t chunk) const {
  Tensor& seen = sights[{window, chunk}];
  if (seen.defined()) return seen;
  const std::int64_t length = images.size(0), steps = is_token.size(1);
  const Tensor positions = arange(0, length, 1, {i64, images.device()});
  const Tensor row = positions.slice(0, length - steps, length).unsqueeze(1);
  const Tensor own = images.slice(0, length - steps, length).unsqueeze(1);
  seen = (positions <= row) | ((images == own) & (own > 0.0));
  if (window > 0) seen = seen & (positions > row - static_cast<double>(window));
  if (chunk > 0) seen = seen & (positions >= row - row % static_cast<double>(chunk));
  return seen;
}

/// Queries, keys and values, of which queries and keys are normed and rotated. @param pair_positions [T, R/2]
Tensor DecoderAttention::turned(const Tensor& qkv, const Tensor& pair_positions, const RotarySettings& rotary) const {
  const std::int64_t batch = qkv.size(0), steps = qkv.size(1);
  const std::int64_t key_at = config_.query_rows(), value_at = key_at + config_.kv_rows();
  const Tensor angles = pair_positions.to(qkv.device()) * rotary.frequencies;
  const Tensor cosines = cos(angles) * rotary.magnitude, sines = sin(angles) * rotary.magnitude;
  const auto side_by_side = [&](const Tensor& rows, const Tensor& norm) {
    const Tensor y = apply_rotary(heads_of(rows, norm), cosines, sines, rotary.interleaved);
    return y.transpose(1, 2).reshape({batch, steps, -1});
  };
  return cat({side_by_side(qkv.slice(-1, 0, key_at), rotary.query_norm),
              side_by_side(qkv.slice(-1, key_at, value_at), rotary.key_norm), qkv.slice(-1, value_at, qkv.size(-1))},
             -1);
}

/// attend_to_cache() of a chunk with images. @param rotary what it does elsewhere
Tensor DecoderAttention::attend_to_images(const Tensor& qkv, const DecoderCache& cache, RotarySettings rotary) const {
  const ImageChunk& chunk = *cache.images;
  PagedCache& own = (*cache.layers)[static_cast<std::size_t>(index_)];
  const std::int64_t batch = qkv.size(0), steps = qkv.size(1);
  Tensor rows = qkv;
  if (chunk.pair_positions.defined() && rotary.frequencies.defined()) {
    rows = turned(qkv, chunk.pair_positions, rotary);
    rotary.frequencies = rotary.query_norm = rotary.key_norm = Tensor();
    rotary.magnitude = 1;
  }
  const Tensor q = rotate_and_cache_(rows, own, cache.places, rotary);
  if (!chunk.images.defined())
    return paged_attention(q, own, cache.places, paged_settings()).reshape({batch, steps, -1});
  const std::int64_t length = chunk.images.size(0);
  const AttentionSettings settings{.mask = chunk.sight(layer_.window, layer_.chunk).to(qkv.device()),
                                   .scale = config_.score_scale(),
                                   .softcap = config_.attention_softcap,
                                   .sinks = sinks};
  const Tensor y = dot_product_attention(q.to(f32).transpose(1, 2), cached_rows(own.keys, cache.places.table, length),
                                         cached_rows(own.values, cache.places.table, length), settings);
  return y.transpose(1, 2).reshape({batch, steps, -1}).to(qkv.dtype());
}

/// What a block gives, and what images add to it.
Tensor Decoder::with_deep(const Tensor& x, std::size_t block, const DecoderCache& cache) const {
  if (cache.images == nullptr || block >= cache.images->deep.size()) return x;
  return x + cache.images->deep[block].to(x.device(), x.dtype());
}

}  // namespace etna::models
