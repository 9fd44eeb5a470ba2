#pragma once

#include <string>

#include <etna/models/encoder.h>

#include "small_models.h"

namespace etna::models {

/// A small encoder with the parts of a family.
inline EncoderConfig small_encoder_config(const std::string& family) {
  EncoderConfig c;
  c.architecture = family;
  c.vocabulary = 97;
  c.context = 64;
  c.width = c.embedding_width = 32;
  c.layers = 3;
  c.heads = 4;
  c.head_size = 8;
  c.feed_forward = 48;
  c.token_types = family == "bert" || family == "electra" ? 2 : 0;
  if (family == "electra") c.embedding_width = 24;
  if (family == "roberta") {
    c.position_offset = 2;
    c.token_types = 1;
  }
  if (family == "mpnet") {
    c.position_offset = 2;
    c.relative_buckets = 32;
  }
  if (family == "modernbert" || family == "nomic_bert") {
    c.gated = true;
    if (family == "nomic_bert") c.activation = Activation::silu;
    c.attention_bias = c.ffn_bias = false;
    c.positions = PositionKind::rotary;
    c.rope_size = 8;
  }
  if (family == "modernbert") {
    c.norm_eps = 1e-5;
    c.pre_norm = true;
    c.norm_bias = false;
    c.window = 4;
    c.window_rope_base = 1000;
    c.windowed = {false, true, true};
  }
  return c;
}

inline std::unique_ptr<Encoder> small_encoder(const EncoderConfig& config, std::uint64_t seed = 7) {
  manual_seed(seed);
  LoudWeights weights;
  return std::make_unique<Encoder>(config, weights);
}

}  // namespace etna::models
