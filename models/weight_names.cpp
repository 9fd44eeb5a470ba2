#include <etna/models/weight_names.h>

#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace etna::models {
namespace {

using Names = std::vector<std::pair<std::string_view, std::string_view>>;

/// A decoder's name in parts: "blocks.3.ffn.up.weight" is block 3, "ffn.up", ".weight".
struct Parts {
  std::string block;  ///< empty outside of blocks
  std::string part;
  std::string kind;  ///< ".weight" or ".bias"
};

Parts parts_of(const std::string& name) {
  Parts parts;
  std::string rest = name;
  if (rest.starts_with("blocks.")) {
    const std::size_t dot = rest.find('.', 7);
    parts.block = rest.substr(7, dot - 7);
    rest = rest.substr(dot + 1);
  }
  const std::size_t dot = rest.rfind('.');
  parts.part = rest.substr(0, dot);
  parts.kind = rest.substr(dot);
  return parts;
}

std::string translated(const Names& names, const std::string& part) {
  for (const auto& [from, to] : names)
    if (from == part) return std::string(to);
  return part;
}

const Names kGguf = {{"token_embedding", "token_embd"},
                     {"position_embedding", "position_embd"},
                     {"norm", "output_norm"},
                     {"output", "output"},
                     {"attention_norm", "attn_norm"},
                     {"attention.query", "attn_q"},
                     {"attention.key", "attn_k"},
                     {"attention.value", "attn_v"},
                     {"attention.output", "attn_output"},
                     {"attention.query_norm", "attn_q_norm"},
                     {"attention.key_norm", "attn_k_norm"},
                     {"attention.sub_norm", "attn_sub_norm"},
                     {"attention_post_norm", "post_attention_norm"},
                     {"ffn_norm", "ffn_norm"},
                     {"ffn.gate", "ffn_gate"},
                     {"ffn.up", "ffn_up"},
                     {"ffn.down", "ffn_down"},
                     {"ffn.sub_norm", "ffn_sub_norm"},
                     {"ffn_post_norm", "post_ffw_norm"}};

/// The first row of a part within what is packed with it.
std::int64_t first_row(const DecoderConfig& config, const std::string& part) {
  if (part == "attention.key") return config.query_rows();
  if (part == "attention.value") return config.query_rows() + config.kv_rows();
  return 0;
}

/// Rows of queries, keys and values in one.
std::int64_t packed_rows(const DecoderConfig& config) { return config.query_rows() + 2 * config.kv_rows(); }

bool is_query_key_or_value(const std::string& part) {
  return part == "attention.query" || part == "attention.key" || part == "attention.value";
}

const Names& hugging_face_names(const std::string& architecture) {
  static const Names llama = {{"token_embedding", "embed_tokens"},
                              {"norm", "norm"},
                              {"attention_norm", "input_layernorm"},
                              {"attention.query", "self_attn.q_proj"},
                              {"attention.key", "self_attn.k_proj"},
                              {"attention.value", "self_attn.v_proj"},
                              {"attention.output", "self_attn.o_proj"},
                              {"attention.query_norm", "self_attn.q_norm"},
                              {"attention.key_norm", "self_attn.k_norm"},
                              {"attention.sub_norm", "self_attn.attn_sub_norm"},
                              {"ffn_norm", "post_attention_layernorm"},
                              {"ffn.gate", "mlp.gate_proj"},
                              {"ffn.up", "mlp.up_proj"},
                              {"ffn.down", "mlp.down_proj"},
                              {"ffn.sub_norm", "mlp.ffn_sub_norm"}};
  // Gemma 2 and 3 have norms on both sides.
  static const Names gemma = [] {
    Names names = {{"attention_post_norm", "post_attention_layernorm"},
                   {"ffn_norm", "pre_feedforward_layernorm"},
                   {"ffn_post_norm", "post_feedforward_layernorm"}};
    names.insert(names.end(), llama.begin(), llama.end());
    return names;
  }();
  // The first BitNet models; later ones have the names above.
  static const Names bitnet = [] {
    Names names = {{"attention.sub_norm", "self_attn.inner_attn_ln"}, {"ffn.sub_norm", "mlp.ffn_layernorm"}};
    names.insert(names.end(), llama.begin(), llama.end());
    return names;
  }();
  static const Names phi2 = [] {
    Names names = {{"attention.output", "self_attn.dense"},
                   {"ffn.up", "mlp.fc1"},
                   {"ffn.down", "mlp.fc2"},
                   {"norm", "final_layernorm"}};
    names.insert(names.end(), llama.begin(), llama.end());
    return names;
  }();
  static const Names gpt2 = {{"token_embedding", "wte"},
                             {"position_embedding", "wpe"},
                             {"norm", "ln_f"},
                             {"attention_norm", "ln_1"},
                             {"attention.query", "attn.c_attn"},
                             {"attention.key", "attn.c_attn"},
                             {"attention.value", "attn.c_attn"},
                             {"attention.output", "attn.c_proj"},
                             {"ffn_norm", "ln_2"},
                             {"ffn.up", "mlp.c_fc"},
                             {"ffn.down", "mlp.c_proj"}};
  if (architecture == "gpt2") return gpt2;
  if (architecture == "phi2") return phi2;
  if (architecture == "bitnet") return bitnet;
  return architecture == "gemma2" || architecture == "gemma3" ? gemma : llama;
}

/// What the names of a decoder's tensors begin with.
std::string hugging_face_prefix(const DecoderConfig& config, const HasTensor& has) {
  const std::string table = config.architecture == "gpt2" ? "wte.weight" : "embed_tokens.weight";
  std::string prefix;
  for (const char* candidate : {"model.", "transformer.", "language_model.model.", "model.language_model."})
    if (has(candidate + table)) prefix = candidate;
  return prefix;
}

}  // namespace

std::string gguf_name(const std::string& name) {
  const Parts parts = parts_of(name);
  const std::string last = translated(kGguf, parts.part) + parts.kind;
  return parts.block.empty() ? last : fmt::format("blk.{}.{}", parts.block, last);
}

StoredWeights::Locate gguf_places(const DecoderConfig& config, const HasTensor& has) {
  return [&config, has](const std::string& name) -> StoredPlace {
    const std::string plain = gguf_name(name);
    if (has(plain)) {
      // Gate and up may be one tensor, the gate first.
      const bool packed = config.gated && name.ends_with(".ffn.up.weight") &&
                          !has(gguf_name(name.substr(0, name.size() - 9) + "gate.weight"));
      return {plain, packed ? config.feed_forward : 0, false, packed ? 2 * config.feed_forward : 0};
    }
    const Parts parts = parts_of(name);
    if (is_query_key_or_value(parts.part))
      return {fmt::format("blk.{}.attn_qkv{}", parts.block, parts.kind), first_row(config, parts.part), false,
              packed_rows(config)};
    if (parts.part == "ffn.gate")
      return {fmt::format("blk.{}.ffn_up{}", parts.block, parts.kind), 0, false, 2 * config.feed_forward};
    return {plain, 0, false};
  };
}

UnusedTensor gguf_unused(const std::string& name) {
  // Of rope, which decoder_config() reads, and buffers of old converters.
  const bool known = name.starts_with("rope_f") || name == "rope.freqs" || name.ends_with("attn_rot_embd");
  return known ? UnusedTensor::known : UnusedTensor::part;
}

UnusedTensor hugging_face_unused(const DecoderConfig& config, const HasTensor& has, const std::string& name) {
  const bool gpt2 = config.architecture == "gpt2", head = name.ends_with("lm_head.weight");
  // Angles and masks that Hugging Face's classes kept as buffers, and a second copy of a tied head.
  if (name.ends_with("rotary_emb.inv_freq") || (config.tied && head)) return UnusedTensor::known;
  if (gpt2 && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"))) return UnusedTensor::known;
  const bool part = name.starts_with(hugging_face_prefix(config, has) + (gpt2 ? "h." : "layers.")) ||
                    name.ends_with("lm_head.bias") || head;
  return part ? UnusedTensor::part : UnusedTensor::other;
}

StoredWeights::Locate hugging_face_places(const DecoderConfig& config, const HasTensor& has) {
  const std::string prefix = hugging_face_prefix(config, has);
  const bool gpt2 = config.architecture == "gpt2";
  return [&config, has, prefix, gpt2](const std::string& name) -> StoredPlace {
    const Parts parts = parts_of(name);
    if (parts.part == "output") {
      const bool inner = prefix.starts_with("language_model.");
      return {(inner ? "language_model.lm_head" : "lm_head") + parts.kind, 0, false};
    }
    const std::string part = translated(hugging_face_names(config.architecture), parts.part);
    const std::string block =
        parts.block.empty() ? prefix : fmt::format("{}{}.{}.", prefix, gpt2 ? "h" : "layers", parts.block);
    const std::string plain = block + part + parts.kind;
    const bool matrix = !parts.block.empty() && parts.kind == ".weight" && parts.part.find("norm") == std::string::npos;
    if (gpt2) {
      return {plain, first_row(config, parts.part), matrix,
              is_query_key_or_value(parts.part) ? packed_rows(config) : 0};
    }
    if (has(plain)) return {plain, 0, false};
    if (is_query_key_or_value(parts.part))
      return {block + "self_attn.qkv_proj" + parts.kind, first_row(config, parts.part), false, packed_rows(config)};
    if (parts.part == "ffn.gate" || parts.part == "ffn.up") {
      const std::string packed = block + "mlp.gate_up_proj" + parts.kind;
      if (has(packed))
        return {packed, parts.part == "ffn.up" ? config.feed_forward : 0, false, 2 * config.feed_forward};
    }
    return {plain, 0, false};
  };
}

StoredWeights::Locate llama2c_places() {
  return [](const std::string& name) -> StoredPlace {
    static const Names names = {{"token_embedding", "tok_embeddings"}, {"attention.query", "attention.wq"},
                                {"attention.key", "attention.wk"},     {"attention.value", "attention.wv"},
                                {"attention.output", "attention.wo"},  {"ffn.gate", "feed_forward.w1"},
                                {"ffn.down", "feed_forward.w2"},       {"ffn.up", "feed_forward.w3"}};
    const Parts parts = parts_of(name);
    const std::string last = translated(names, parts.part) + parts.kind;
    return {parts.block.empty() ? last : fmt::format("layers.{}.{}", parts.block, last), 0, false};
  };
}

StoredWeights::Locate language_model_places(const DecoderConfig& config) {
  return [&config](const std::string& name) -> StoredPlace {
    static const Names names = {
        {"token_embedding", "wte"},   {"position_embedding", "wpe"}, {"attention_norm", "norm1"},
        {"attention.query", "qkv"},   {"attention.key", "qkv"},      {"attention.value", "qkv"},
        {"attention.output", "proj"}, {"ffn_norm", "norm2"},         {"ffn.up", "up"},
        {"ffn.down", "down"}};
    const Parts parts = parts_of(name);
    const std::string last = translated(names, parts.part) + parts.kind;
    return {parts.block.empty() ? last : fmt::format("blocks.{}.{}", parts.block, last), first_row(config, parts.part),
            false, is_query_key_or_value(parts.part) ? packed_rows(config) : 0};
  };
}

}  // namespace etna::models
