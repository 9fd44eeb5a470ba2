#pragma once

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/models/decoder.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"

namespace etna::models {

/// How Hugging Face stores the models of a family: written apart from weight_names.cpp, so that the two check each
/// other.
struct Family {
  const char* type;          ///< model_type
  const char* architecture;  ///< of small_config()
  std::string prefix = "model.";
  std::string more = {};  ///< further fields of config.json, each with a comma in front
};

inline void PrintTo(const Family& family, std::ostream* out) { *out << family.type << " in " << family.prefix; }

/// Writes a decoder's weights by a family's names and layouts.
class FolderWriter {
 public:
  FolderWriter(const Decoder& model, const Family& family) : c_(model.config), family_(family) {
    for (const nn::NamedTensor& p : model.named_parameters()) own_.emplace(p.name, p.tensor.detach());
    const std::string type = family.type;
    gemma_ = type.starts_with("gemma");
    if (type == "gpt2") {
      gpt2();
    } else if (type == "phi") {
      phi();
    } else {
      llama();
    }
    if (!c_.tied) {
      const std::string head = family.prefix.starts_with("language_model.") ? "language_model.lm_head" : "lm_head";
      put(head + ".weight", own("output.weight"));
      if (c_.head_bias) put(head + ".bias", own("output.bias"));
    }
  }

  /// @param shards of the weights, with an index where there are several
  void save(const TemporaryFolder& folder, std::size_t shards = 1) const {
    std::ofstream(folder / "config.json") << config();
    if (shards == 1) return save_safetensors(folder / "model.safetensors", tensors_);
    std::string map;
    for (std::size_t i = 0; i < shards; ++i) {
      const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards);
      NamedTensors part;
      for (std::size_t t = i; t < tensors_.size(); t += shards) {
        part.push_back(tensors_[t]);
        map += fmt::format("{}\"{}\": \"{}\"", map.empty() ? "" : ", ", tensors_[t].first, name);
      }
      save_safetensors(folder / name, part);
    }
    std::ofstream(folder / "model.safetensors.index.json")
        << fmt::format(R"({{"metadata": {{"total_size": 1}}, "weight_map": {{{}}}}})", map);
  }

  NamedTensors& tensors() { return tensors_; }

 private:
  const Tensor& own(const std::string& name) const { return own_.at(name); }
  void put(const std::string& name, const Tensor& values) { tensors_.emplace_back(name, values.contiguous()); }
  /// A layer or a norm with its bias, if it has one.
  void copy(const std::string& to, const std::string& from) {
    const bool norm = from.ends_with("norm");
    put(to + ".weight", norm && gemma_ ? own(from + ".weight") - 1.0 : own(from + ".weight"));
    if (own_.contains(from + ".bias")) put(to + ".bias", own(from + ".bias"));
  }
  Tensor rows(const std::string& block, std::initializer_list<const char*> parts, const char* kind = ".weight") const {
    std::vector<Tensor> all;
    for (const char* part : parts) all.push_back(own(block + part + kind));
    return cat(all);
  }

  void gpt2() {
    const std::string& p = family_.prefix;
    put(p + "wte.weight", own("token_embedding.weight"));
    put(p + "wpe.weight", own("position_embedding.weight"));
    copy(p + "ln_f", "norm");
    for (std::int64_t i = 0; i < c_.layers; ++i) {
      const std::string from = fmt::format("blocks.{}.", i), to = fmt::format("{}h.{}.", p, i);
      copy(to + "ln_1", from + "attention_norm");
      copy(to + "ln_2", from + "ffn_norm");
      for (const auto& [theirs, ours] : {std::pair{"attn.c_attn", "attention.qkv"},
                                         {"attn.c_proj", "attention.output"},
                                         {"mlp.c_fc", "ffn.up"},
                                         {"mlp.c_proj", "ffn.down"}}) {
        put(to + theirs + ".weight", own(from + ours + ".weight").t());
        put(to + theirs + ".bias", own(from + ours + ".bias"));
      }
    }
  }

  void phi() {
    copy("model.embed_tokens", "token_embedding");
    copy("model.final_layernorm", "norm");
    for (std::int64_t i = 0; i < c_.layers; ++i) {
      const std::string from = fmt::format("blocks.{}.", i), to = fmt::format("model.layers.{}.", i);
      copy(to + "input_layernorm", from + "attention_norm");
      copy(to + "self_attn.q_proj", from + "attention.query");
      copy(to + "self_attn.k_proj", from + "attention.key");
      copy(to + "self_attn.v_proj", from + "attention.value");
      copy(to + "self_attn.dense", from + "attention.output");
      copy(to + "mlp.fc1", from + "ffn.up");
      copy(to + "mlp.fc2", from + "ffn.down");
    }
  }

  void llama() {
    const std::string& p = family_.prefix;
    copy(p + "embed_tokens", "token_embedding");
    copy(p + "norm", "norm");
    for (std::int64_t i = 0; i < c_.layers; ++i) {
      const std::string from = fmt::format("blocks.{}.", i), to = fmt::format("{}layers.{}.", p, i);
      copy(to + "input_layernorm", from + "attention_norm");
      if (c_.post_norms) {
        copy(to + "post_attention_layernorm", from + "attention_post_norm");
        copy(to + "pre_feedforward_layernorm", from + "ffn_norm");
        copy(to + "post_feedforward_layernorm", from + "ffn_post_norm");
      } else {
        copy(to + "post_attention_layernorm", from + "ffn_norm");
      }
      if (std::string(family_.type) == "phi3") {
        put(to + "self_attn.qkv_proj.weight", rows(from, {"attention.query", "attention.key", "attention.value"}));
        put(to + "mlp.gate_up_proj.weight", rows(from, {"ffn.gate", "ffn.up"}));
      } else {
        copy(to + "self_attn.q_proj", from + "attention.query");
        copy(to + "self_attn.k_proj", from + "attention.key");
        copy(to + "self_attn.v_proj", from + "attention.value");
        copy(to + "mlp.gate_proj", from + "ffn.gate");
        copy(to + "mlp.up_proj", from + "ffn.up");
      }
      copy(to + "self_attn.o_proj", from + "attention.output");
      copy(to + "mlp.down_proj", from + "ffn.down");
      if (c_.query_key_norm) {
        copy(to + "self_attn.q_norm", from + "attention.query_norm");
        copy(to + "self_attn.k_norm", from + "attention.key_norm");
      }
      if (c_.sub_norms) {
        const bool first = std::string(family_.type) == "llama";
        copy(to + (first ? "self_attn.inner_attn_ln" : "self_attn.attn_sub_norm"), from + "attention.sub_norm");
        copy(to + (first ? "mlp.ffn_layernorm" : "mlp.ffn_sub_norm"), from + "ffn.sub_norm");
      }
    }
  }

  std::string config() const {
    const std::string tied = c_.tied ? "true" : "false";
    if (c_.architecture == "gpt2") {
      return fmt::format(
          R"({{"model_type": "gpt2", "vocab_size": {}, "n_positions": {}, "n_ctx": {}, "n_embd": {}, "n_layer": {},)"
          R"( "n_head": {}, "n_inner": {}, "layer_norm_epsilon": {}, "activation_function": "gelu_new"{}}})",
          c_.vocabulary, c_.context, c_.context, c_.width, c_.layers, c_.heads, c_.feed_forward, c_.norm_eps,
          family_.more);
    }
    const std::string fields =
        fmt::format(R"({{"model_type": "{}", "vocab_size": {}, "max_position_embeddings": {}, "hidden_size": {},)"
                    R"( "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {},)"
                    R"( "intermediate_size": {}, "{}": {}, "rope_theta": {}, "tie_word_embeddings": {}{}}})",
                    family_.type, c_.vocabulary, c_.context, c_.width, c_.layers, c_.heads, c_.kv_heads, c_.head_size,
                    c_.feed_forward, c_.norm == NormKind::rms ? "rms_norm_eps" : "layer_norm_eps", c_.norm_eps,
                    c_.rope.base, tied, family_.more);
    if (!family_.prefix.starts_with("language_model.")) return fields;
    return fmt::format(R"({{"model_type": "gemma3", "text_config": {}, "vision_config": {{"hidden_size": 8}}}})",
                       fields);
  }

  const DecoderConfig& c_;
  const Family family_;
  std::map<std::string, Tensor> own_;
  NamedTensors tensors_;
  bool gemma_ = false;
};

}  // namespace etna::models
