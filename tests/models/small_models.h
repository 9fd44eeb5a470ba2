#pragma once

#include <cmath>
#include <string>

#include <etna/models/decoder.h>
#include <etna/models/internal/architecture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/quant/quantized_tensor.h>

namespace etna::models {

/// Weights that are large enough for greedy texts to differ.
struct LoudWeights : Weights {
  Matrix matrix(const std::string&, std::int64_t rows, std::int64_t columns) override {
    return {randn({rows, columns}) * (1.6 / std::sqrt(static_cast<double>(columns))), {}};
  }
  Tensor vector(const std::string& name, std::int64_t size) override {
    return name.ends_with(".bias") ? randn({size}) * 0.3 : rand({size}) + 0.5;
  }
};

/// A small model of an architecture as GGUF names it.
inline DecoderConfig small_config(const std::string& architecture) {
  DecoderConfig c;
  c.architecture = architecture;
  find_architecture_gguf(architecture)->apply(c);
  const bool whole = architecture == "phi2" || architecture == "gpt2" || architecture == "gptneox";
  const bool by_fours = architecture == "cohere2" || architecture == "exaone4" || architecture == "olmo2";
  c.vocabulary = 97;
  c.context = 256;
  c.width = 64;
  const bool by_sixes = architecture == "gemma3" || architecture == "gemma-embedding";
  c.layers = by_sixes ? 7 : by_fours || architecture == "smollm3" ? 4 : 2;
  c.heads = 4;
  c.kv_heads = whole ? 4 : 2;
  c.head_size = 16;
  c.feed_forward = 96;
  if (architecture == "gemma2" || by_sixes || by_fours) c.window = 24;
  if (architecture == "gemma2") {
    c.attention_softcap = 50;
    c.logit_softcap = 30;
  }
  if (architecture == "granite") {
    c.embedding_scale = 3;
    c.residual_scale = 0.5;
    c.logit_scale = 0.25;
    c.attention_scale = 0.2;
  }
  if (architecture == "mistral3") c.temperature = {.scale = 0.5, .floor = 16};
  if (find_architecture_gguf(architecture)->experts.there) {
    c.experts.count = 4;
    c.experts.chosen = 2;
    c.experts.feed_forward = 48;
    if (find_architecture_gguf(architecture)->latent) {
      c.kv_heads = 4;
      c.rope.size = 8;
      c.latent = {.size = 24, .query_size = architecture == "deepseek3" ? 32 : 0, .value_size = 12};
    }
    if (architecture == "glm4moe" || architecture == "deepseek3") {
      c.experts.groups = 2;
      c.experts.chosen_groups = 1;
      c.experts.scale = 1.5;
    }
    if (architecture == "glm4moe" || architecture == "ernie4_5-moe" || architecture == "deepseek3") {
      c.experts.shared = 32;
      set_expert_layers(c, {false, true});
    }
  }
  fill_defaults(c);
  set_layers(c);
  if (architecture == "phi2" || architecture == "gptneox" || architecture == "stablelm") c.rope.size = 8;
  return c;
}

inline std::unique_ptr<Decoder> small_model(const DecoderConfig& config, std::uint64_t seed = 7) {
  manual_seed(seed);
  LoudWeights weights;
  return std::make_unique<Decoder>(config, weights);
}

inline std::vector<std::int32_t> some_text(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>((i * i * 7 + 3 * i + 1) % vocabulary));
  return tokens;
}

/// Whether products of weights in a plain 16-bit format take x as it is on this device. GPUs with matrix units and
/// processors with AVX-512 BF16 or AMX round it.
inline bool multiplies_exactly(Device device, const char* format) {
  const auto numbers = [&](std::int64_t rows) {
    return sin(arange(0, rows * 64, 1, {f32, device})).reshape({rows, 64});
  };
  const QuantizedTensor weight = quantize(numbers(96), quant::format_named(format));
  const Tensor decoded = dequantize(weight);
  for (const std::int64_t rows : {1, 8, 48}) {
    const Tensor x = numbers(rows) * 1.3;
    if ((quantized_linear(x, weight) - matmul(x, decoded.t())).abs().max().item<double>() > 1e-4) return false;
  }
  return true;
}

}  // namespace etna::models
