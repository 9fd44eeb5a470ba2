#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/models/encoder.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>

#include "small_encoders.h"

namespace etna::models {

/// How Hugging Face stores a BERT or a ModernBERT: written apart from encoder_names.cpp, so that the two check each
/// other.
struct EncoderFolder {
  const Encoder& model;
  std::string prefix = {};  ///< of names
  bool greek = false;       ///< names of norms in the oldest files
  std::string more = {};    ///< further fields of config.json, each with a comma in front
  NamedTensors extra = {};

  void save(const std::filesystem::path& folder) const {
    const bool modern = model.config.architecture == "modernbert";
    NamedTensors tensors = modern ? modernbert() : bert();
    tensors.insert(tensors.end(), extra.begin(), extra.end());
    save_safetensors(folder / "model.safetensors", tensors);
    const EncoderConfig& c = model.config;
    const std::string sizes =
        fmt::format(R"("vocab_size": {}, "max_position_embeddings": {}, "hidden_size": {}, "num_hidden_layers": {},)"
                    R"( "num_attention_heads": {}, "intermediate_size": {})",
                    c.vocabulary, c.context, c.width, c.layers, c.heads, c.feed_forward);
    std::string own = fmt::format(R"("model_type": "bert", "type_vocab_size": {})", c.token_types);
    if (modern) {
      own = fmt::format(
          R"("model_type": "modernbert", "local_attention": {}, "global_attn_every_n_layers": {}, "norm_eps": {},)"
          R"( "global_rope_theta": {}, "local_rope_theta": {})",
          2 * c.window, c.layers, c.norm_eps, c.rope_base, c.window_rope_base);
    }
    std::ofstream(folder / "config.json") << fmt::format("{{{}, {}{}}}", own, sizes, more);
  }

 private:
  std::map<std::string, Tensor> own() const {
    std::map<std::string, Tensor> values;
    for (const nn::NamedTensor& p : model.named_parameters()) values.emplace(p.name, p.tensor.detach());
    return values;
  }

  NamedTensors bert() const {
    NamedTensors to;
    const std::int64_t width = model.config.width;
    for (const auto& [name, values] : own()) {
      std::string there = name;
      const auto is = [&](const std::string& part) { return name.find(part) != std::string::npos; };
      const auto put = [&](const std::string& part) {
        std::string kind = name.ends_with(".bias") ? ".bias" : ".weight";
        if (greek && part.ends_with("LayerNorm")) kind = kind == ".bias" ? ".beta" : ".gamma";
        const std::string block = is("blocks.") ? "encoder.layer." + name.substr(7, 1) + "." : "";
        to.emplace_back(part == "classifier" ? part + kind : prefix + block + part + kind, values.contiguous());
      };
      if (is(".qkv.")) {
        const std::string kind = name.ends_with(".bias") ? ".bias" : ".weight";
        std::int64_t at = 0;
        for (const char* part : {"query", "key", "value"}) {
          to.emplace_back(prefix + "encoder.layer." + name.substr(7, 1) + ".attention.self." + part + kind,
                          values.slice(0, at, at + width).contiguous());
          at += width;
        }
        continue;
      }
      for (const auto& [ours, theirs] :
           {std::pair<std::string, std::string>{"token_embedding", "embeddings.word_embeddings"},
            {"position_embedding", "embeddings.position_embeddings"},
            {"type_embedding", "embeddings.token_type_embeddings"},
            {"embedding_norm", "embeddings.LayerNorm"},
            {".attention_norm", "attention.output.LayerNorm"},
            {".ffn.up", "intermediate.dense"},
            {".ffn.down", "output.dense"},
            {".ffn_norm", "output.LayerNorm"},
            {"classifier.dense", "pooler.dense"},
            {"classifier.output", "classifier"}})
        if (is(ours)) put(theirs);
      if (is(".output.") && !is("classifier")) put("attention.output.dense");
    }
    return to;
  }

  NamedTensors modernbert() const {
    NamedTensors to;
    const std::map<std::string, Tensor> all = own();
    const auto put = [&](const std::string& theirs, const std::string& ours) {
      const auto found = all.find(ours);
      if (found != all.end()) to.emplace_back(prefix + theirs, found->second.contiguous());
    };
    put("embeddings.tok_embeddings.weight", "token_embedding.weight");
    put("embeddings.norm.weight", "embedding_norm.weight");
    put("final_norm.weight", "norm.weight");
    for (std::int64_t i = 0; i < model.config.layers; ++i) {
      const std::string from = fmt::format("blocks.{}.", i), there = fmt::format("layers.{}.", i);
      put(there + "attn.Wqkv.weight", from + "qkv.weight");
      put(there + "attn.Wo.weight", from + "output.weight");
      put(there + "attn_norm.weight", from + "attention_norm.weight");
      put(there + "mlp_norm.weight", from + "ffn_norm.weight");
      put(there + "mlp.Wo.weight", from + "ffn.down.weight");
      to.emplace_back(prefix + there + "mlp.Wi.weight",
                      cat({all.at(from + "ffn.gate.weight"), all.at(from + "ffn.up.weight")}));
    }
    for (const auto& [theirs, ours] : {std::pair{"head.dense.weight", "classifier.dense.weight"},
                                       {"head.norm.weight", "classifier.norm.weight"},
                                       {"classifier.weight", "classifier.output.weight"},
                                       {"classifier.bias", "classifier.output.bias"}}) {
      if (all.contains(ours)) to.emplace_back(theirs, all.at(ours).contiguous());
    }
    return to;
  }
};

}  // namespace etna::models
