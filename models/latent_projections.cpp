#include <etna/models/decoder_block.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/expert_linear.h>

// Latent attention: short rows, from which the keys and values of all heads follow.
namespace etna::models {

LatentProjections::LatentProjections(Weights& weights, const std::string& name, const DecoderConfig& config)
    : query_down(config.latent.query_size > 0
                     ? std::make_unique<Projection>(weights, name + ".query_down", config.width,
                                                    config.latent.query_size, config.query_bias)
                     : nullptr),
      query_norm(config.latent.query_size > 0 ? std::make_unique<Norm>(weights, name + ".query_norm", NormKind::rms,
                                                                       config.latent.query_size, config.norm_eps)
                                              : nullptr),
      query(weights, name + ".query", query_down ? config.latent.query_size : config.width, config.query_rows(), false),
      down(weights, name + ".down", config.width, config.latent.size + config.rope.size, config.query_bias),
      norm(weights, name + ".norm", NormKind::rms, config.latent.size, config.norm_eps),
      up(weights, name + ".up", config.latent.size,
         config.heads * (config.head_size - config.rope.size + config.latent.value_size), false),
      config_(config) {
  if (query_down) register_module("query_down", *query_down);
  if (query_norm) register_module("query_norm", *query_norm);
  register_module("query", query);
  register_module("down", down);
  register_module("norm", norm);
  register_module("up", up);
}

/// @param x [B, T, width] @return [B, T, heads, head_size], [B, T, latent.size] and [B, T, rope.size]
LatentProjections::Parts LatentProjections::parts(const Tensor& x, const ProjectionMode& mode) const {
  const std::int64_t size = config_.latent.size;
  const Tensor q = query(query_down ? (*query_norm)((*query_down)(x, mode)) : x, mode), row = down(x, mode);
  return {q.reshape({x.size(0), x.size(1), config_.heads, -1}), norm(row.slice(-1, 0, size)),
          row.slice(-1, size, row.size(-1))};
}

AttentionRows LatentProjections::rows(const Tensor& x, const ProjectionMode& mode) const {
  const std::int64_t batch = x.size(0), steps = x.size(1), heads = config_.heads;
  const std::int64_t turned = config_.rope.size, still = config_.head_size - turned;
  const auto side_by_side = [&](const Tensor& a, const Tensor& b) {
    return cat({a, b}, -1).reshape({batch, steps, heads * config_.head_size});
  };
  // Files have the rotated elements behind the others.
  const auto [q, latent, row] = parts(x, mode);
  const Tensor both = up(latent, mode).reshape({batch, steps, heads, -1});
  const Tensor shared = row.unsqueeze(2).expand({batch, steps, heads, turned});
  const Tensor value = both.slice(-1, still, both.size(-1));
  const Tensor padding =
      zeros({batch, steps, heads, config_.head_size - value.size(-1)}, {value.dtype(), value.device()});
  return {side_by_side(q.slice(-1, still, config_.head_size), q.slice(-1, 0, still)),
          side_by_side(shared, both.slice(-1, 0, still)), side_by_side(value, padding)};
}

Tensor LatentProjections::unpadded(const Tensor& y) const {
  const std::int64_t batch = y.size(0), steps = y.size(1);
  return y.reshape({batch, steps, config_.heads, config_.head_size})
      .slice(-1, 0, config_.latent.value_size)
      .reshape({batch, steps, config_.value_rows()});
}

/// Rows of `up`, or what belongs to each, of keys or of values. @param rows [heads · rows of a head, ...]
/// @return [heads, rows, ...]
Tensor LatentProjections::part_of(const Tensor& rows, bool values) const {
  const std::int64_t still = config_.head_size - config_.rope.size, all = still + config_.latent.value_size;
  const Tensor each = rows.reshape({config_.heads, all, -1});
  return values ? each.slice(1, still, all) : each.slice(1, 0, still);
}

LatentProjections::Halves LatentProjections::split() const {
  const std::int64_t heads = config_.heads, size = config_.latent.size;
  const QuantizedTensor blocks = up.frozen() ? up.blocks() : QuantizedTensor();
  const auto is = [&](const char* format) { return blocks.defined() && blocks.format().name == format; };
  // Blocks are along the rows of values, but across those of keys, which are decoded to 16 bits.
  const DType plain = is("F32") ? f32 : is("BF16") ? bf16 : f16;
  const Tensor given = up.frozen() ? dequantize(blocks, plain) : up.weight.detach();
  const Tensor whole = given.dtype() == f64 ? given.to(f32) : given;
  const Tensor keys = part_of(whole, false).transpose(1, 2).reshape({heads * size, -1}).contiguous();
  const Shape of_values{heads * config_.latent.value_size, size};
  if (!blocks.defined() || blocks.format().tail != 0)
    return {QuantizedTensor::unquantized(keys),
            QuantizedTensor::unquantized(part_of(whole, true).reshape(of_values).contiguous())};
  return {QuantizedTensor::unquantized(keys),
          {blocks.format(), of_values, part_of(up.packed, true).contiguous().flatten()}};
}

/// Of a frozen matrix they are made once, where its blocks are. Others may be trained between calls.
LatentProjections::Halves LatentProjections::halves() const {
  if (!up.frozen()) return split();
  const bool same = halves_of_.defined() && halves_of_.storage() == up.packed.storage();
  if (!same || halves_.keys.device() != up.device()) {  // a module moves a tensor in place
    const NotCaptured now;
    halves_ = split();
    halves_of_ = up.packed;
  }
  return halves_;
}

/// @param x [B, T, heads, K] @param matrices [heads · M, K] @return [B, T, heads, M]
Tensor LatentProjections::by_head(const Tensor& x, const QuantizedTensor& matrices) const {
  const std::int64_t batch = x.size(0), steps = x.size(1), heads = config_.heads;
  const Tensor own = arange(0, heads, 1, {i32, x.device()}).unsqueeze(0).expand({batch * steps, heads});
  const Tensor y = expert_linear(x.reshape({batch * steps, heads, x.size(-1)}), matrices, own, heads);
  return y.reshape({batch, steps, heads, -1});
}

/// Queries of latent rows: each head's by its part of `up`, transposed. @param query [B, T, heads, still elements]
/// @return [B, T, heads, latent.size]
Tensor LatentProjections::absorbed(const Tensor& query, const ProjectionMode& mode) const {
  const Tensor factors = up.row_factors();
  const Tensor scaled = factors.defined() ? query * part_of(factors, false).squeeze(-1) : query;
  Tensor y = by_head(scaled, halves().keys);
  for (const LowRankPart& part : up.low_rank_parts(mode, 4)) {
    const Tensor b = part_of(part.b, false).transpose(1, 2).reshape({-1, query.size(-1)}).contiguous();
    const Tensor ranks = by_head(part.kept.defined() ? query : scaled, QuantizedTensor::unquantized(b));
    const Tensor kept = part.kept.defined() ? ranks.where(part.kept, 0.0) : ranks;
    y = y + quantized_linear(kept, QuantizedTensor::unquantized(part.a.t().contiguous())) * part.scale;
  }
  return y;
}

Tensor LatentProjections::cached_rows(const Tensor& x, const ProjectionMode& mode) const {
  const std::int64_t still = config_.head_size - config_.rope.size;
  const auto [q, latent, row] = parts(x, mode);
  const Tensor queries =
      cat({q.slice(-1, still, config_.head_size), absorbed(q.slice(-1, 0, still), mode)}, -1).flatten(2);
  return cat({queries, row, latent}, -1);
}

/// What some rows of `up` make of latent ones, with what its adapters add. @param own without adapters
/// @param factors of the rows, or undefined @param times multiplies [..., ranks] by those rows of B, [up.out, ranks]
Tensor LatentProjections::with_adapters(const Tensor& latent, const Tensor& own, const Tensor& factors,
                                        const ProjectionMode& mode, const Product& times) const {
  Tensor y = own, chosen;
  for (const LowRankPart& part : up.low_rank_parts(mode, latent.dim())) {
    const Tensor ranks = quantized_linear(latent, QuantizedTensor::unquantized(part.a));
    const Tensor kept = part.kept.defined() ? ranks.where(part.kept, 0.0) : ranks;
    const Tensor added = times(kept, part.b) * part.scale;
    if (part.kept.defined())
      chosen = added;
    else
      y = y + added;
  }
  if (factors.defined()) y = y * factors.to(y.dtype());
  return chosen.defined() ? y + chosen : y;
}

Tensor LatentProjections::values_of(const Tensor& y, const ProjectionMode& mode) const {
  const Tensor rows = y.reshape({y.size(0), y.size(1), config_.heads, -1});
  const Tensor latent = rows.slice(-1, config_.rope.size, rows.size(-1)), factors = up.row_factors();
  const auto times = [&](const Tensor& ranks, const Tensor& b) {
    return by_head(ranks, QuantizedTensor::unquantized(part_of(b, true).reshape({-1, ranks.size(-1)}).contiguous()));
  };
  return with_adapters(latent, by_head(latent, halves().values),
                       factors.defined() ? part_of(factors, true).squeeze(-1) : factors, mode, times)
      .flatten(2);
}

}  // namespace etna::models
