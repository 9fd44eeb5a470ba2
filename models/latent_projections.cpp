#include <etna/models/decoder_block.h>
#include <etna/tensor/ops.h>

// Latent attention: short rows, from which the keys and values of all heads follow.
namespace etna::models {

LatentProjections::LatentProjections(Weights& weights, const std::string& name, const DecoderConfig& config)
    : query_down(config.latent.query_size > 0
                     ? std::make_unique<Projection>(weights, name + ".query_down", config.width,
                                                    config.latent.query_size, false)
                     : nullptr),
      query_norm(config.latent.query_size > 0 ? std::make_unique<Norm>(weights, name + ".query_norm", NormKind::rms,
                                                                       config.latent.query_size, config.norm_eps)
                                              : nullptr),
      query(weights, name + ".query", query_down ? config.latent.query_size : config.width, config.query_rows(), false),
      down(weights, name + ".down", config.width, config.latent.size + config.rope.size, false),
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

AttentionRows LatentProjections::rows(const Tensor& x, const ProjectionMode& mode) const {
  const std::int64_t batch = x.size(0), steps = x.size(1), heads = config_.heads;
  const std::int64_t turned = config_.rope.size, still = config_.head_size - turned, size = config_.latent.size;
  const auto heads_of = [&](const Tensor& rows) { return rows.reshape({batch, steps, heads, -1}); };
  const auto side_by_side = [&](const Tensor& a, const Tensor& b) {
    return cat({a, b}, -1).reshape({batch, steps, heads * config_.head_size});
  };
  // Files have the rotated elements behind the others.
  const Tensor q = heads_of(query(query_down ? (*query_norm)((*query_down)(x, mode)) : x, mode));
  const Tensor row = down(x, mode), both = heads_of(up(norm(row.slice(-1, 0, size)), mode));
  const Tensor shared = row.slice(-1, size, size + turned).unsqueeze(2).expand({batch, steps, heads, turned});
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

}  // namespace etna::models
