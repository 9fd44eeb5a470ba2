#include <charconv>
#include <cmath>

#include <etna/models/internal/decoder_parts.h>
#include <etna/tensor/ops.h>

// Experts beside a feed-forward layer of all positions, and experts on another device than their layer.
namespace etna::models {

ExpertsBeside::ExpertsBeside(Weights& weights, const std::string& name, const DecoderConfig& config)
    : ffn(weights, name + ".ffn", config, config.experts.feed_forward, &config.experts),
      dense_norm(weights, name + ".dense_norm", NormKind::rms, config.width, config.norm_eps),
      norm(weights, name + ".norm", NormKind::rms, config.width, config.norm_eps),
      post_norm(weights, name + ".post_norm", NormKind::rms, config.width, config.norm_eps),
      router_scale(weights.vector(name + ".router_scale", config.width)),
      factors(weights.vector(name + ".factors", config.experts.count)) {
  register_module("ffn", ffn);
  register_module("dense_norm", dense_norm);
  register_module("norm", norm);
  register_module("post_norm", post_norm);
  register_parameter("router_scale", &ExpertsBeside::router_scale);
  register_parameter("factors", &ExpertsBeside::factors);
}

Tensor ExpertsBeside::forward(const Tensor& dense, const Tensor& x, const ProjectionMode& mode) const {
  const Tensor rows = x.reshape({-1, x.size(-1)});
  // The factor of all elements is 1/√width.
  const Tensor read = rms_norm(rows, router_scale, norm.eps) * (1 / std::sqrt(static_cast<double>(rows.size(-1))));
  const auto [expert, factor] = ffn.router->choose(read, mode);
  const Tensor own = embedding(factors.unsqueeze(-1), expert).squeeze(-1);
  const Tensor y = ffn.experts(norm(rows), {expert, factor * own}, mode);
  return dense_norm(dense) + post_norm(y.reshape(x.shape()));
}

bool is_expert_matrix(const DecoderConfig& config, const std::string& name) {
  constexpr std::string_view kBlocks = "blocks.";
  if (config.experts.count == 0 || !name.starts_with(kBlocks)) return false;
  std::int64_t layer = -1;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kBlocks.size(), end, layer);
  if (error != std::errc{} || layer < 0 || layer >= config.layers || !config.layer(layer).experts) return false;
  std::string_view rest(at, static_cast<std::size_t>(end - at));
  const std::string_view part = config.experts.beside_dense ? ".beside.ffn." : ".ffn.";
  if (!rest.starts_with(part)) return false;
  rest.remove_prefix(part.size());
  return rest.starts_with("gate.") || rest.starts_with("up.") || rest.starts_with("down.");
}

bool has_host_experts(const Decoder& decoder) {
  const auto on_host = [](const DecoderFeedForward* ffn) {
    return ffn != nullptr && ffn->router && ffn->up.device().is_cpu() && !ffn->router->logits.device().is_cpu();
  };
  for (const DecoderBlock& block : decoder.blocks)
    if (on_host(block.ffn.get()) || (block.beside && on_host(&block.beside->ffn))) return true;
  return false;
}

}  // namespace etna::models
