#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/models/internal/config_fields.h>

// Mixtures of experts in a config.json.
namespace etna::models {
namespace {

std::int64_t number(const Json& json, std::string_view key, std::int64_t otherwise) {
  return key.empty() ? otherwise : read<std::int64_t>(json, std::string(key).c_str(), otherwise);
}

/// Families have different names for it.
std::int64_t expert_count(const Json& json) {
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"})
    if (field(json, key) != nullptr) return read<std::int64_t>(json, key, 0);
  throw FormatError("the number of experts ('num_experts') is missing");
}

/// Whether each layer has experts.
std::vector<bool> expert_layers(const Json& json, const ExpertRules& rules, const DecoderConfig& c) {
  const std::int64_t first = number(json, rules.dense_first, 0), every = number(json, rules.every, 1);
  const std::int64_t end = number(json, rules.last, -1), last = end < 0 ? c.layers - 1 : end;
  if (every < 1) throw FormatError(fmt::format("'{}' is {}; it must be above 0", rules.every, every));
  std::vector<bool> has;
  for (std::int64_t i = 0; i < c.layers; ++i) has.push_back(i >= first && i <= last && (i + 1) % every == 0);
  if (const Json* dense = field(json, "mlp_only_layers"); dense != nullptr && dense->is_array()) {
    for (const Json& layer : *dense) {
      if (!layer.is_number_integer() || layer < 0 || layer >= c.layers)
        throw FormatError(fmt::format("'mlp_only_layers' has {} for {} layers", layer.dump(), c.layers));
      has[layer.get<std::size_t>()] = false;
    }
  }
  if (const Json* kinds = field(json, "mlp_layer_types"); kinds != nullptr && kinds->is_array()) {
    if (std::ssize(*kinds) != c.layers)
      throw FormatError(fmt::format("'mlp_layer_types' has {} entries for {} layers", kinds->size(), c.layers));
    for (std::size_t i = 0; i < kinds->size(); ++i) {
      has[i] = (*kinds)[i] == "sparse";
      if (!has[i] && (*kinds)[i] != "dense")
        throw FormatError(
            fmt::format("'mlp_layer_types' has {}; known are \"dense\" and \"sparse\"", (*kinds)[i].dump()));
    }
  }
  return has;
}

}  // namespace

void set_expert_layers(DecoderConfig& c, const std::vector<bool>& has) {
  std::vector<LayerConfig> layers;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    layers.push_back(c.layer(i));
    layers.back().experts = has.at(static_cast<std::size_t>(i));
  }
  if (!c.each_layer.empty() || std::find(has.begin(), has.end(), false) != has.end()) c.each_layer = std::move(layers);
}

void read_experts(const Json& json, const ExpertRules& rules, DecoderConfig& c) {
  ExpertConfig& e = c.experts;
  e.count = expert_count(json);
  if (e.count == 0) return;
  e.chosen = number(json, rules.chosen, 2);
  if (e.router == RouterKind::sparsemixer) e.chosen = 2;
  e.feed_forward = required(json, std::string(rules.width).c_str());
  e.choice_bias = read(json, "use_expert_bias", e.choice_bias);
  e.latent = read<std::int64_t>(json, "moe_latent_size", 0);
  // A product of numbers that check() refuses must not overflow.
  const auto bounded = [](std::int64_t n) { return std::clamp<std::int64_t>(n, -1, std::int64_t{1} << 24); };
  e.shared = rules.shared_width.empty() ? bounded(number(json, rules.shared, 0)) * bounded(e.feed_forward)
                                        : number(json, rules.shared_width, 0);
  if (!rules.norm.empty()) e.normalized = read(json, std::string(rules.norm).c_str(), rules.normalized);
  if (rules.scaled) e.scale = read(json, "routed_scaling_factor", 1.0);
  e.groups = rules.scaled ? read<std::int64_t>(json, "n_group", 1) : 1;
  // DeepSeek-V2 says whether there are groups.
  if (read<std::string>(json, "topk_method", "") == "greedy") e.groups = 1;
  e.chosen_groups = e.groups > 1 ? read<std::int64_t>(json, "topk_group", 1) : 1;
  e.jitter = e.router == RouterKind::sparsemixer ? read(json, "router_jitter_noise", e.jitter) : 0;
  if (c.layers <= kMostLayers && !lists_experts(c)) set_expert_layers(c, expert_layers(json, rules, c));
}

}  // namespace etna::models
