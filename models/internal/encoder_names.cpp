#include <etna/models/internal/encoder_names.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/models/internal/encoder_family.h>

namespace etna::models {
namespace {

/// What heads' names begin with, which embeddings do not need.
constexpr std::string_view kHeads[] = {"pooler.",
                                       "cls.",
                                       "classifier.",
                                       "pre_classifier.",
                                       "qa_outputs.",
                                       "lm_head.",
                                       "vocab_transform.",
                                       "vocab_layer_norm.",
                                       "vocab_projector.",
                                       "head.",
                                       "decoder.",
                                       "discriminator_predictions.",
                                       "generator_predictions.",
                                       "generator_lm_head."};

constexpr std::pair<std::string_view, std::string_view> kGgufEncoder[] = {{"token_embedding", "token_embd"},
                                                                          {"position_embedding", "position_embd"},
                                                                          {"type_embedding", "token_types"},
                                                                          {"embedding_norm", "token_embd_norm"},
                                                                          {"qkv", "attn_qkv"},
                                                                          {"query", "attn_q"},
                                                                          {"key", "attn_k"},
                                                                          {"value", "attn_v"},
                                                                          {"output", "attn_output"},
                                                                          {"attention_norm", "attn_output_norm"},
                                                                          {"ffn.gate", "ffn_gate"},
                                                                          {"ffn.up", "ffn_up"},
                                                                          {"ffn.down", "ffn_down"},
                                                                          {"ffn_norm", "layer_output_norm"},
                                                                          {"classifier.dense", "cls"},
                                                                          {"classifier.output", "cls.output"}};

std::string gguf_encoder_part(const EncoderFamily& family, const Parts& parts) {
  std::string name = parts.part;
  for (const PartNames names : {PartNames(kGgufEncoder), family.gguf_names})
    for (const auto& [own, theirs] : names)
      if (own == parts.part) name = theirs;
  return (parts.block.empty() ? name : fmt::format("blk.{}.{}", parts.block, name)) + parts.kind;
}

/// The gate or the up projection, where both are one matrix; nothing where they are not.
StoredPlaces within_gate_and_up(const EncoderConfig& config, const HasTensor& has, const std::string& part,
                                StoredPlace both) {
  if ((part != "ffn.gate" && part != "ffn.up") || !has(both.name)) return {};
  both.packed = 2 * config.feed_forward;
  both.begin = part == "ffn.up" ? config.feed_forward : 0;
  return {std::move(both)};
}

}  // namespace

StoredPlaces encoder_qkv(const EncoderConfig& config, const HasTensor& has,
                         const std::function<StoredPlace(const std::string& part)>& place) {
  StoredPlace whole = place("qkv");
  if (has(whole.name)) return {std::move(whole)};
  StoredPlaces three;
  for (const char* part : {"query", "key", "value"}) {
    three.push_back(place(part));
    three.back().rows = config.head_rows();
  }
  return three;
}

std::string encoder_prefix(const EncoderConfig& config, const HasTensor& has) {
  const EncoderFamily& family = family_of(config);
  const std::string prefix(family.prefix);
  return has(prefix + encoder_part(family, "token_embedding") + ".weight") ? prefix : "";
}

StoredWeights::Locate encoder_places(const EncoderConfig& config, const std::string& prefix, const HasTensor& has) {
  return [&config, prefix, has, &family = family_of(config)](const std::string& name) -> StoredPlaces {
    const Parts parts = parts_of(name);
    const std::string block =
        parts.block.empty() ? prefix : fmt::format("{}{}.{}.", prefix, family.blocks, parts.block);
    const auto place = [&](const std::string& part) {
      const std::string stem = encoder_part(family, part), usual = block + stem + parts.kind;
      if (has(usual)) return StoredPlace{usual};
      // A classifier has no prefix, and the oldest files name what a norm has by Greek letters.
      const std::string head = stem + parts.kind, greek = block + stem + (parts.kind == ".bias" ? ".beta" : ".gamma");
      return StoredPlace{part.starts_with("classifier.") && has(head) ? head : has(greek) ? greek : usual};
    };
    if (parts.part == "qkv") return encoder_qkv(config, has, place);
    const StoredPlaces packed = within_gate_and_up(config, has, parts.part, place("ffn.gate_and_up"));
    return packed.empty() ? StoredPlaces{place(parts.part)} : packed;
  };
}

StoredWeights::Locate gguf_encoder_places(const EncoderConfig& config, const HasTensor& has) {
  return [&config, has, &family = family_of(config)](const std::string& name) -> StoredPlaces {
    const Parts parts = parts_of(name);
    const auto place = [&](const std::string& part) {
      return StoredPlace{gguf_encoder_part(family, {parts.block, part, parts.kind})};
    };
    if (parts.part == "qkv") return encoder_qkv(config, has, place);
    const StoredPlaces packed = within_gate_and_up(config, has, parts.part, place("ffn.gate_and_up"));
    return packed.empty() ? StoredPlaces{place(parts.part)} : packed;
  };
}

UnusedTensor encoder_unused(const std::string& prefix, const std::string& name) {
  for (const char* buffer : {"embeddings.position_ids", "embeddings.token_type_ids", "rotary_emb.inv_freq"})
    if (name.ends_with(buffer)) return UnusedTensor::known;
  const std::string_view own = std::string_view(name).substr(name.starts_with(prefix) ? prefix.size() : 0);
  const bool head = std::any_of(std::begin(kHeads), std::end(kHeads), [&](std::string_view begin) {
    return own.starts_with(begin) || name.starts_with(begin);
  });
  return head ? UnusedTensor::other : UnusedTensor::part;
}

std::string gguf_encoder_name(const EncoderConfig& config, const std::string& name) {
  return gguf_encoder_part(family_of(config), parts_of(name));
}

}  // namespace etna::models
