#include <etna/models/internal/weight_names.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <etna/models/internal/architecture.h>
#include <etna/models/internal/mtp_head.h>

namespace etna::models {
namespace {

using Names = std::vector<std::pair<std::string_view, std::string_view>>;

std::string translated(const Names& names, const std::string& part) {
  for (const auto& [from, to] : names)
    if (from == part) return std::string(to);
  return part;
}

/// Of GPT-2 in checkpoints that older versions wrote.
const Names kOlderGpt2 = {{"token_embedding", "wte"}, {"position_embedding", "wpe"}, {"attention_norm", "norm1"},
                          {"attention.qkv", "qkv"},   {"attention.output", "proj"},  {"ffn_norm", "norm2"},
                          {"ffn.up", "up"},           {"ffn.down", "down"}};

/// A part as files call it: by its whole name where the table has that, else without the kind, and without a number.
template <typename Translate>
std::string file_part(Translate translate, const Architecture& architecture, const std::string& part,
                      const std::string& kind) {
  const std::string whole = part + kind, found = translate(architecture, whole);
  if (found != whole) return found;
  const std::size_t dot = part.rfind('.');
  const bool numbered = dot != std::string::npos && part.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  return numbered ? translate(architecture, part.substr(0, dot)) + part.substr(dot) + kind
                  : translate(architecture, part) + kind;
}

/// "ffn.experts.up" for the matrices of experts, which the decoder calls "ffn.up" as those of other layers, or
/// "beside.ffn.up".
std::string with_experts(const DecoderConfig& config, const Parts& parts) {
  if (config.experts.count == 0 || parts.block.empty()) return parts.part;
  constexpr std::string_view kBeside = "beside.";
  if (config.experts.beside_dense) {
    const std::string own = parts.part.substr(std::min(parts.part.size(), kBeside.size()));
    const bool expert = parts.part.starts_with(kBeside) && (own == "ffn.gate" || own == "ffn.up" || own == "ffn.down");
    return expert ? "ffn.experts" + own.substr(3) : parts.part;
  }
  const bool matrix = parts.part == "ffn.gate" || parts.part == "ffn.up" || parts.part == "ffn.down";
  const std::int64_t index = std::stoll(parts.block), layer = index < config.layers ? index : mtp_source(config);
  return matrix && layer >= 0 && config.layer(layer).experts ? "ffn.experts" + parts.part.substr(3) : parts.part;
}

/// The matrices of experts in files of Hugging Face: a tensor of each, whose name has its number for "{}", or one of
/// all, [experts, rows, columns], in which the rows of gate and up may be behind each other.
StoredPlaces expert_places(const ExpertConfig& experts, const std::string& part, const std::string& name,
                           std::int64_t columns) {
  const bool down = part.ends_with("down");
  StoredPlaces places;
  const std::size_t number = name.find("{}");
  const std::int64_t rows = down ? columns : experts.feed_forward;
  for (std::int64_t e = 0; e < experts.count; ++e) {
    if (number == std::string::npos) {
      const std::int64_t all = down ? rows : 2 * rows;
      places.push_back({name, e * all + (part.ends_with("up") ? rows : 0), false, experts.count * all, rows});
    } else {
      places.push_back({name.substr(0, number) + std::to_string(e) + name.substr(number + 2), 0, false, 0, rows});
    }
  }
  return places;
}

/// Queries of latent attention have one projection where there is no second.
std::string with_latent_query(const DecoderConfig& config, const std::string& part) {
  return part == "attention.latent.query" && config.latent.query_size == 0 ? "attention.query" : part;
}

std::string gguf_name_of(const Architecture& architecture, const Parts& parts) {
  const std::string last = file_part(gguf_part, architecture, parts.part, parts.kind);
  return parts.block.empty() ? last : fmt::format("blk.{}.{}", parts.block, last);
}

/// Where a GGUF file has a part's rows in tensors of other names. @param plain the name of one of its own
StoredPlaces packed_gguf_places(const DecoderConfig& config, const Parts& parts, const HasTensor& has,
                                const std::string& plain) {
  const Architecture& a = architecture_of(config);
  StoredPlaces places;
  // Tensors of attention have the same name whether they are packed or not.
  if (a.packed_gguf == nullptr || (!parts.part.starts_with("attention.") && has(plain))) return places;
  const std::string block = parts.block.empty() ? "" : fmt::format("blk.{}.", parts.block);
  for (const PackedRows& rows : a.packed_gguf(config, parts.part))
    places.push_back({block + rows.name + parts.kind, rows.begin, false, rows.all, rows.rows});
  return places;
}

constexpr const char* kQkv = "attention.qkv";
constexpr const char* kQueryKeyValue[] = {"attention.query", "attention.key", "attention.value"};

bool is_of_qkv(const std::string& part) {
  return part == kQkv ||
         std::find(std::begin(kQueryKeyValue), std::end(kQueryKeyValue), part) != std::end(kQueryKeyValue);
}

/// Places of queries, keys and values, or of one of them.
/// @param place of a part that has a tensor of its own in the file
StoredPlaces qkv_places(const DecoderConfig& config, const std::string& part, const HasTensor& has,
                        const std::function<StoredPlace(const std::string& part)>& place) {
  const StoredPlace own = place(part);
  if (has(own.name)) return {own};
  StoredPlace packed = place(kQkv);
  StoredPlaces three;
  for (const char* one : kQueryKeyValue) {
    const std::int64_t rows = one == kQueryKeyValue[0] ? config.query_rows() : config.kv_rows();
    if (part == one && has(packed.name)) {
      packed.packed = config.query_rows() + 2 * config.kv_rows();
      return {packed};
    }
    packed.begin += rows;
    three.push_back(place(one));
    three.back().rows = rows;
  }
  return part == kQkv && has(three[0].name) ? three : StoredPlaces{own};
}

/// The same where a head's query, key and value lie below each other in one tensor.
StoredPlaces places_by_head(const DecoderConfig& config, const std::string& part, const StoredPlace& packed) {
  const auto* at = std::find(std::begin(kQueryKeyValue), std::end(kQueryKeyValue), part);
  const std::int64_t size = config.head_size;
  StoredPlaces places;
  for (std::int64_t head = 0; head < config.heads; ++head) {
    places.push_back(packed);
    places.back().begin = (3 * head + (at - std::begin(kQueryKeyValue))) * size;
    places.back().packed = 3 * config.heads * size;
    places.back().rows = size;
  }
  return places;
}

/// Whether a tensor is of one of the layers behind the last one. @param blocks "blk."
bool is_of_next_layer(const DecoderConfig& config, const std::string& name, const std::string& blocks) {
  for (std::int64_t i = 0; i < config.next_layers; ++i)
    if (name.starts_with(fmt::format("{}{}.", blocks, config.layers + i))) return true;
  return false;
}

/// What names of the head for further tokens begin with in a folder of Hugging Face, "mtp." or "model.mtp."; empty
/// where there is none, or where it is one more block.
std::string next_prefix_of(const Architecture& architecture, const HasTensor& has) {
  if (architecture.next_prefix.empty()) return {};
  for (const char* outer : {"", "model."}) {
    std::string prefix = outer + std::string(architecture.next_prefix);
    if (has(prefix + hugging_face_part(architecture, "mtp.combine") + ".weight")) return prefix;
  }
  return {};
}

/// Whether a tensor is of keys or values of a layer that attends to another one's.
/// @param blocks "model.layers." @param parts what its name begins with behind the layer
bool is_of_shared_keys(const DecoderConfig& config, const std::string& name, const std::string& blocks,
                       std::initializer_list<const char*> parts) {
  for (std::int64_t i = 0; i < std::ssize(config.each_layer); ++i) {
    if (config.layer(i).shares < 0) continue;
    for (const char* part : parts)
      if (name.starts_with(fmt::format("{}{}.{}", blocks, i, part))) return true;
  }
  return false;
}

}  // namespace

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
  if (dot != std::string::npos) parts.kind = rest.substr(dot);
  return parts;
}

std::string gguf_name(const DecoderConfig& config, const std::string& name) {
  Parts parts = parts_of(name);
  parts.part = with_latent_query(config, with_experts(config, parts));
  return gguf_name_of(architecture_of(config), parts);
}

StoredWeights::Locate gguf_places(const DecoderConfig& config, const HasTensor& has) {
  return [&config, has, &a = architecture_of(config)](const std::string& name) -> StoredPlaces {
    const Parts parts = parts_of(name);
    const auto place = [&](const std::string& part) {
      return StoredPlace{gguf_name_of(a, {parts.block, part, parts.kind})};
    };
    // A head for further tokens may have the model's last norm.
    if (parts.part == "mtp.norm" && !has(place(parts.part).name)) return {{gguf_name_of(a, {"", "norm", parts.kind})}};
    const std::string part = with_experts(config, parts);
    if (const StoredPlaces rows = packed_gguf_places(config, parts, has, place(part).name); !rows.empty()) return rows;
    if (is_of_qkv(parts.part)) return qkv_places(config, parts.part, has, place);
    const StoredPlace plain = place(with_latent_query(config, part));
    if (part != parts.part && parts.kind == ".weight" && !has(plain.name)) {
      // Gate and up projections of all experts in one tensor.
      const std::string both = fmt::format("blk.{}.ffn_gate_up_exps.weight", parts.block);
      if (!part.ends_with("down") && has(both)) return expert_places(config.experts, part, both, config.expert_width());
    }
    if (parts.part.starts_with("ffn.shared.") || part != parts.part) return {plain};
    if (has(plain.name)) {
      // Gate and up may be packed into one tensor, gate first.
      const bool packed = config.gated && parts.part == "ffn.up" && !has(place("ffn.gate").name);
      return {{plain.name, packed ? config.feed_forward : 0, false, packed ? 2 * config.feed_forward : 0}};
    }
    if (parts.part == "ffn.gate") return {{place("ffn.up").name, 0, false, 2 * config.feed_forward}};
    return {plain};
  };
}

UnusedTensor gguf_unused(const DecoderConfig& config, const std::string& name) {
  if (is_of_next_layer(config, name, "blk.")) return UnusedTensor::known;
  // Tensors of RoPE, which decoder_config() reads, and buffers of old converters.
  // Halves of the keys and values of latent attention, which gguf_tensor() joins.
  const bool half =
      config.latent.size > 0 && (name.ends_with(".attn_k_b.weight") || name.ends_with(".attn_v_b.weight"));
  // What makes embeddings and scores of hidden states.
  const bool behind = name.starts_with("dense_") || name.starts_with("cls.");
  const bool known = half || behind || name.starts_with("rope_f") || name == "rope.freqs" ||
                     name.ends_with("attn_rot_embd") ||
                     is_of_shared_keys(config, name, "blk.", {"attn_k.", "attn_v.", "attn_k_norm."});
  return known ? UnusedTensor::known : UnusedTensor::part;
}

std::string hugging_face_prefix(const DecoderConfig& config, const HasTensor& has) {
  const Architecture& a = architecture_of(config);
  const std::string table = hugging_face_part(a, "token_embedding") + ".weight";
  std::string prefix;
  for (const std::string_view candidate :
       {a.prefix, std::string_view("model."), std::string_view("transformer."),
        std::string_view("language_model.model."), std::string_view("model.language_model."),
        std::string_view("model.text_model.")})
    if (has(std::string(candidate) + table)) prefix = candidate;
  return prefix;
}

UnusedTensor hugging_face_unused(const DecoderConfig& config, const HasTensor& has, const std::string& name) {
  const Architecture& a = architecture_of(config);
  const std::string output = hugging_face_part(a, "output");
  const bool head = name.ends_with(output + ".weight");
  // Angles and masks that Hugging Face's classes kept as buffers, and a second copy of a tied head.
  const bool buffer = name.ends_with("rotary_emb.inv_freq") ||
                      std::any_of(a.buffers.begin(), a.buffers.end(), [&](auto end) { return name.ends_with(end); });
  const std::string prefix = hugging_face_prefix(config, has), blocks = fmt::format("{}{}.", prefix, a.blocks);
  const std::string next = next_prefix_of(a, has);
  if (buffer || (config.tied && head) || is_of_next_layer(config, name, blocks) ||
      (!next.empty() && name.starts_with(next)) ||
      is_of_shared_keys(config, name, blocks, {"self_attn.k_proj.", "self_attn.v_proj.", "self_attn.k_norm."}))
    return UnusedTensor::known;
  // Without a prefix, names that begin otherwise may be those of other parts.
  const bool part = name.starts_with(prefix.empty() ? blocks : prefix) || name.ends_with(output + ".bias") || head;
  return part ? UnusedTensor::part : UnusedTensor::other;
}

std::int64_t next_layers_in(const DecoderConfig& config, const HasTensor& has) {
  const Architecture& a = architecture_of(config);
  return a.next_prefix.empty() ? config.next_layers : next_prefix_of(a, has).empty() ? 0 : 1;
}

StoredWeights::Locate hugging_face_places(const DecoderConfig& config, const std::string& prefix,
                                          const HasTensor& has) {
  const Architecture& a = architecture_of(config);
  return [&config, has, prefix, &a, next = next_prefix_of(a, has)](const std::string& name) -> StoredPlaces {
    const Parts parts = parts_of(name);
    if (parts.part == "output") {
      const bool inner = prefix.starts_with("language_model.");
      return {{(inner ? "language_model." : "") + hugging_face_part(a, "output") + parts.kind}};
    }
    std::string block = parts.block.empty() ? prefix : fmt::format("{}{}.{}.", prefix, a.blocks, parts.block);
    if (!next.empty() && !parts.block.empty() && std::stoll(parts.block) >= config.layers)
      block = parts.part.starts_with("mtp.") ? next : next + "layers.0.";
    const bool matrix = !parts.block.empty() && parts.kind == ".weight" && parts.part.find("norm") == std::string::npos;
    const bool turned = a.in_by_out && matrix;
    const auto place = [&](const std::string& part) {
      return StoredPlace{block + file_part(hugging_face_part, a, part, parts.kind), 0, turned};
    };
    if (a.packed_rows != nullptr) {
      StoredPlaces places;
      for (const PackedRows& rows : a.packed_rows(config, with_experts(config, parts)))
        places.push_back({block + rows.name + parts.kind, rows.begin, false, rows.all, rows.rows});
      if (!places.empty()) return places;
    }
    if (const std::string part = with_experts(config, parts); part != parts.part) {
      // Later files of the same models have one tensor for all experts.
      const std::string all = block + (part.ends_with("down") ? "mlp.experts.down_proj" : "mlp.experts.gate_up_proj");
      return expert_places(config.experts, part, !a.experts.in_by_out && has(all) ? all : place(part).name,
                           config.expert_width());
    }
    if (a.qkv_by_head && is_of_qkv(parts.part)) return places_by_head(config, parts.part, place(kQkv));
    if (is_of_qkv(parts.part)) return qkv_places(config, parts.part, has, place);
    const StoredPlace plain = place(with_latent_query(config, parts.part));
    if ((parts.part == "ffn.gate" || parts.part == "ffn.up") && !has(plain.name)) {
      const std::string packed = block + "mlp.gate_up_proj" + parts.kind;
      if (has(packed))
        return {{packed, parts.part == "ffn.up" ? config.feed_forward : 0, turned, 2 * config.feed_forward}};
    }
    return {plain};
  };
}

StoredWeights::Locate llama2c_places() {
  return [](const std::string& name) -> StoredPlaces {
    static const Names names = {{"token_embedding", "tok_embeddings"}, {"attention.query", "attention.wq"},
                                {"attention.key", "attention.wk"},     {"attention.value", "attention.wv"},
                                {"attention.output", "attention.wo"},  {"ffn.gate", "feed_forward.w1"},
                                {"ffn.down", "feed_forward.w2"},       {"ffn.up", "feed_forward.w3"}};
    const Parts parts = parts_of(name);
    const std::string last = translated(names, parts.part) + parts.kind;
    return {{parts.block.empty() ? last : fmt::format("layers.{}.{}", parts.block, last)}};
  };
}

std::optional<RenamedWeight> renamed_weight(const HasTensor& has) {
  const auto& [own, older] = kOlderGpt2.front();
  RenamedWeight weight{fmt::format("{}.weight", older), fmt::format("{}.weight", own)};
  return has(weight.there) && !has(weight.here) ? std::optional(std::move(weight)) : std::nullopt;
}

StoredWeights::Locate checkpoint_places(const DecoderConfig& config, const HasTensor& has) {
  static const Names own;
  const Names& names = renamed_weight(has) ? kOlderGpt2 : own;
  return [&config, has, &names](const std::string& name) -> StoredPlaces {
    const Parts parts = parts_of(name);
    const auto place = [&](const std::string& part) {
      const std::string last = translated(names, part) + parts.kind;
      return StoredPlace{parts.block.empty() ? last : fmt::format("blocks.{}.{}", parts.block, last)};
    };
    if (is_of_qkv(parts.part)) return qkv_places(config, parts.part, has, place);
    return {place(parts.part)};
  };
}

}  // namespace etna::models
