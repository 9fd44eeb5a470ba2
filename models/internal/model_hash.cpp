#include <etna/models/internal/model_hash.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/io/internal/xxh3.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// All that decides what a decoder computes besides its weights.
std::string design(const DecoderConfig& c) {
  std::string text = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}",
      c.architecture, c.vocabulary, c.context, c.width, c.layers, c.heads, c.kv_heads, c.head_size, c.feed_forward,
      static_cast<int>(c.norm), c.norm_eps, c.query_key_norm, c.post_norms, c.sub_norms, c.parallel, c.gated,
      static_cast<int>(c.activation), c.query_bias, c.packed_qkv, c.output_bias, c.ffn_bias, c.norm_bias, c.head_bias,
      c.tied, static_cast<int>(c.positions), c.rope.size, c.rope.interleaved, c.score_scale(), c.attention_softcap,
      c.logit_softcap, c.embedding_scale, c.window, c.window_every);
  text += fmt::format(" {} {} {} {} {} {} {} {} {} {}", c.norms_all_heads, c.pre_norms, c.parallel_norms, c.xielu,
                      c.logit_scale, c.residual_scale, c.temperature.scale, c.temperature.floor, c.temperature.offset,
                      c.window_rope_base);
  const ExpertConfig& e = c.experts;
  text += fmt::format(" {} {} {} {}", c.latent.size, c.latent.query_size, c.latent.value_size, e.groups_by_best);
  text += fmt::format(" {} {} {} {} {} {} {} {} {} {} {}", e.count, e.chosen, e.feed_forward, e.shared,
                      static_cast<int>(e.router), e.choice_bias, e.groups, e.chosen_groups, e.normalized, e.scale,
                      e.jitter);
  text += fmt::format(" {} {} {} {} {} {} {} {} {}", e.bias, e.scales_input, e.beside_dense, e.limit, c.sinks,
                      c.value_norm, c.plain_query_key_norm, c.block_scales, c.laurel_rank);
  text += fmt::format(" {} {} {} {} {} {}", c.layer_inputs.size, c.layer_inputs.vocabulary, c.streams.count,
                      c.streams.active, c.streams.scales_active, c.streams.coefficient_limit);
  // Designs without these keep the hash that they had.
  if (e.latent > 0 || c.layer_norms_heads || c.qkv_limit > 0)
    text += fmt::format(" {} {} {}", e.latent, c.layer_norms_heads, c.qkv_limit);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const LayerConfig layer = c.layer(i);
    text += fmt::format(" {} {} {} {} {} {} {} {}", layer.window, layer.rotary, layer.temperature, layer.experts,
                        layer.chunk, layer.shares, layer.keys_are_values, layer.sparsity);
    text += fmt::format(" {} {} {} {}", layer.head_size, layer.kv_heads, layer.rope_size, layer.feed_forward);
  }
  if (c.positions != PositionKind::rotary) return text;
  for (std::int64_t i = 0; i < c.layers; ++i)
    text += fmt::format(" {}", fmt::join(c.of_layer(i).rope_frequencies(i), " "));
  return text + fmt::format(" {}", c.rope_magnitude());
}

}  // namespace

std::string model_hash(const Decoder& decoder) {
  const NoGrad no_grad;
  io::Xxh3 hash;
  hash.add(design(decoder.config));
  const auto add = [&](const nn::NamedTensor& part) {
    if (!part.tensor.defined()) return;
    const Tensor here = part.tensor.detach().to(kCPU).contiguous();
    hash.add(fmt::format("{} {} {}", part.name, name(here.dtype()), str(here.shape())));
    hash.add(here.raw_data(), static_cast<std::size_t>(here.numel()) * item_size(here.dtype()));
  };
  for (const nn::NamedTensor& part : decoder.named_parameters()) add(part);
  for (const nn::NamedTensor& part : decoder.named_buffers()) add(part);
  for (const DecoderBlock& block : decoder.blocks) {
    for (const NamedProjection& own : const_cast<DecoderBlock&>(block).adapter_layers())
      for (const Tensor& part : own.layer->stacked_adapters()) add({own.name, part});
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace etna::models
