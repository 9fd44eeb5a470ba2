#include <etna/models/internal/mtp_head.h>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/internal/architecture.h>
#include <etna/models/internal/decoder_parts.h>
#include <etna/models/internal/state_mixers.h>
#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// What the head's weights are called: those of a block behind the last one.
std::string mtp_name(const DecoderConfig& config, const char* part) {
  return fmt::format("blocks.{}{}", config.layers, part);
}

const DecoderConfig& mtp_checked(const DecoderConfig& config) {
  if (mtp_source(config) >= 0 && config.layer_inputs.size == 0 && config.streams.count == 1) return config;
  throw FormatError(fmt::format(
      "the block of a head for further tokens (MTP) is as a layer with attention alone, keys of its own and one input; "
      "models of '{}' have none such",
      config.architecture));
}

}  // namespace

std::int64_t mtp_source(const DecoderConfig& config) {
  for (std::int64_t i = config.layers; i-- > 0;) {
    const LayerConfig layer = config.layer(i);
    if (layer.has_attention() && !layer.has_state() && layer.has_feed_forward && layer.shares < 0) return i;
  }
  return -1;
}

DecoderConfig with_mtp_layer(const DecoderConfig& config) {
  DecoderConfig more = config;
  more.each_layer.clear();
  for (std::int64_t i = 0; i < config.layers; ++i) more.each_layer.push_back(config.layer(i));
  more.each_layer.push_back(config.layer(mtp_source(config)));
  ++more.layers;
  return more;
}

MtpHead::MtpHead(Weights& weights, const DecoderConfig& given)
    : config(with_mtp_layer(mtp_checked(given))),
      reads_normed(architecture_of(given).next_reads_normed),
      next_norm(weights, mtp_name(given, ".mtp.next_norm"), config.norm, config.width, config.norm_eps,
                config.norm_bias),
      hidden_norm(weights, mtp_name(given, ".mtp.hidden_norm"), config.norm, config.width, config.norm_eps,
                  config.norm_bias),
      combine(weights, mtp_name(given, ".mtp.combine"), 2 * config.width, config.width, false),
      block(weights, mtp_name(given, ""), config, given.layers),
      norm(weights, mtp_name(given, ".mtp.norm"), config.norm, config.width, config.norm_eps, config.norm_bias) {
  register_module("next_norm", next_norm);
  register_module("hidden_norm", hidden_norm);
  register_module("combine", combine);
  register_module("block", block);
  register_module("norm", norm);
}

Tensor MtpHead::extend(const Tensor& hidden, const Tensor& next, const DecoderCache& cache) const {
  const GradMode off(false);
  const fusion::OnCpu on_cpu(hidden.device());
  const Tensor both = cat({next_norm(next), hidden_norm(hidden)}, -1);
  return block.forward(combine(both, {.generates = true}), &cache);
}

}  // namespace etna::models
