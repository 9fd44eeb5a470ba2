#include <etna/models/internal/latent_prompts.h>

#include <algorithm>
#include <vector>

#include <etna/models/decoder_block.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/internal/paged.h>

// Latent attention of many queries: keys and values of all heads are made of the short rows in the cache, and attended
// to as those of other models.
namespace etna::models {
namespace {

/// Of one head: keys and values, and the result of the product that both are copied from.
std::int64_t latent_head_bytes(const DecoderConfig& config, std::int64_t positions, DType dtype) {
  const std::int64_t elements = 3 * config.head_size - config.rope.size + config.latent.value_size;
  return std::max<std::int64_t>(1, positions * elements * static_cast<std::int64_t>(item_size(dtype)));
}

/// Rows of a matrix. @param begin, end rows of whole heads
QuantizedTensor latent_rows_between(const QuantizedTensor& matrix, std::int64_t begin, std::int64_t end) {
  const auto row = static_cast<std::int64_t>(matrix.bytes()) / matrix.size(0);
  // A copy begins where kernels can load several bytes at once.
  return {matrix.format(), {end - begin, matrix.size(1)}, matrix.blocks().slice(0, begin * row, end * row).clone()};
}

}  // namespace

std::int64_t expanded_rows(const DecoderConfig& config, std::int64_t rows) {
  constexpr std::int64_t usual = 512;
  const std::int64_t latent = config.latent.size, turned = config.rope.size, size = config.head_size;
  const std::int64_t saved = 2 * latent + turned - 2 * size;
  const bool gains = latent > 0 && saved * usual > latent * (size - turned + config.latent.value_size);
  return gains ? rows / kCacheBlock * kCacheBlock : 0;
}

std::uint64_t expanded_latent_bytes(const DecoderConfig& config, std::int64_t positions) {
  const std::int64_t head = latent_head_bytes(config, positions, f32);
  return static_cast<std::uint64_t>(std::clamp(kLatentBytes, head, head * config.heads));
}

Tensor table_to(const DecoderConfig& config, const Tensor& table, std::int64_t positions) {
  if (config.latent.size == 0) return table;
  return table.slice(1, 0, std::min(table.size(1), (positions + kCacheBlock - 1) / kCacheBlock));
}

AttentionRows LatentProjections::short_rows(const Tensor& x, const ProjectionMode& mode) const {
  const std::int64_t still = config_.head_size - config_.rope.size;
  const auto [q, latent, row] = parts(x, mode);
  const Tensor query = cat({q.slice(-1, still, config_.head_size), q.slice(-1, 0, still)}, -1).flatten(2);
  return {query, cat({row, latent}, -1), {}};
}

/// What the part of `up` of some heads makes of latent rows. @param latent [B, S, latent.size]
/// @return [B, S, heads, still elements + value_size]
Tensor LatentProjections::up_of_heads(const Tensor& latent, std::int64_t first, std::int64_t end,
                                      const ProjectionMode& mode) const {
  const Shape shape{latent.size(0), latent.size(1), end - first, up.out / config_.heads};
  const QuantizedTensor blocks = up.blocks();
  if (end - first == config_.heads) return up(latent, mode).reshape(shape);
  const std::int64_t from = first * shape[3], to = end * shape[3];
  // The scale of a whole tensor is behind its last row.
  const QuantizedTensor matrix =
      blocks.format().tail == 0 ? latent_rows_between(blocks, from, to)
                                : QuantizedTensor::unquantized(dequantize(blocks, f16).slice(0, from, to).contiguous());
  const Tensor factors = up.row_factors();
  return with_adapters(latent, quantized_linear(latent, matrix),
                       factors.defined() ? factors.slice(0, from, to) : factors, mode,
                       [&](const Tensor& ranks, const Tensor& b) {
                         const Tensor rows = b.slice(0, from, to).contiguous();
                         return quantized_linear(ranks, QuantizedTensor::unquantized(rows));
                       })
      .reshape(shape);
}

/// Keys and values of some heads as a cache. @param rows [B, S, rope.size + latent.size], S of whole blocks
/// @return [B · blocks, heads, kCacheBlock, head_size], values padded with zeros
PagedCache LatentProjections::expanded(const Tensor& rows, std::int64_t first, std::int64_t end,
                                       const ProjectionMode& mode) const {
  const std::int64_t turned = config_.rope.size, still = config_.head_size - turned, heads = end - first;
  const std::int64_t blocks = rows.numel() / rows.size(-1) / kCacheBlock;
  const Tensor both = up_of_heads(rows.slice(-1, turned, rows.size(-1)), first, end, mode)
                          .reshape({blocks, kCacheBlock, heads, -1})
                          .transpose(1, 2);
  const Tensor shared =
      rows.slice(-1, 0, turned).reshape({blocks, 1, kCacheBlock, turned}).expand({blocks, heads, kCacheBlock, turned});
  return {cat({shared, both.slice(-1, 0, still)}, -1),
          pad(both.slice(-1, still, both.size(-1)), {0, config_.head_size - config_.latent.value_size})};
}

Tensor LatentProjections::attend_expanded(const Tensor& query, const PagedCache& cached, const CachePlaces& places,
                                          const PagedAttentionSettings& settings, const ProjectionMode& mode,
                                          std::int64_t most_bytes) const {
  const std::int64_t batch = query.size(0), blocks = places.table.size(1), positions = blocks * kCacheBlock;
  const DType dtype = attention::paged::prompt_dtype(cached);
  const Tensor rows = etna::cached_rows(cached.keys, places.table, positions, dtype).squeeze(1);
  const Tensor own = arange(0, batch * blocks, 1, {i32, rows.device()}).reshape({batch, blocks});
  const CachePlaces own_places{own.where(places.table >= 0.0, -1.0), places.positions};
  const std::int64_t at_once =
      std::clamp<std::int64_t>(most_bytes / latent_head_bytes(config_, batch * positions, dtype), 1, config_.heads);
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < config_.heads; first += at_once) {
    const std::int64_t end = std::min(first + at_once, config_.heads);
    const Tensor y =
        paged_attention(query.slice(2, first, end).to(dtype), expanded(rows, first, end, mode), own_places, settings);
    parts.push_back(y.slice(-1, 0, config_.latent.value_size));
  }
  return (parts.size() == 1 ? parts[0] : cat(parts, 2)).to(query.dtype()).flatten(2);
}

/// Whole blocks of rows. @param x [B, T, width] @return [B, T, heads · value_size]
Tensor DecoderAttention::attend_to_expanded(const Tensor& x, const DecoderCache& cache) const {
  const ProjectionMode mode = cache.mode();
  const AttentionRows rows = latent->short_rows(x, mode);
  PagedCache& own = (*cache.layers)[static_cast<std::size_t>(index_)];
  // The row is its own query, which nothing reads.
  RotarySettings of_row = rotary_settings(x.device());
  of_row.heads = 1;
  rotate_and_cache_(cat({rows.key, rows.key}, -1), own, cache.places, of_row);
  return latent->attend_expanded(placed(rows.query, cache.places), own, cache.places, paged_settings(), mode);
}

/// @param x [B, T, width] @return [B, T, heads · value_size]
Tensor DecoderAttention::attend_to_latent(const Tensor& x, const DecoderCache& cache) const {
  const bool expands = cache.images == nullptr && x.dtype() != f64;
  const std::int64_t steps = x.size(1), whole = expands ? expanded_rows(config_, steps) : 0;
  TensorList parts;
  if (whole > 0) parts.push_back(attend_to_expanded(x.slice(1, 0, whole), cache));
  if (whole < steps) {
    DecoderCache behind = cache;
    const Tensor& positions = cache.places.positions;
    if (whole > 0) behind.places.positions = (positions + static_cast<double>(whole)).where(positions >= 0.0, -1.0);
    const Tensor rows = latent->cached_rows(x.slice(1, whole, steps), cache.mode());
    parts.push_back(latent->values_of(attend_to_cache(rows, behind), cache.mode()));
  }
  return parts.size() == 1 ? parts[0] : cat(parts, 1);
}

}  // namespace etna::models
