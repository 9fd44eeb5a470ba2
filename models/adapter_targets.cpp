#include <etna/models/internal/adapter_targets.h>

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/models/internal/architecture.h>
#include <etna/models/internal/decoder_parts.h>
#include <etna/models/internal/weight_names.h>

namespace etna::models {
namespace {

/// Names of a layer, "blocks.0.ffn.up": the decoder's, without its block, and those in files of Hugging Face, which may
/// have the matrix for itself or packed with others. Of experts it is that of the first.
std::vector<std::string> target_names(const DecoderConfig& config, const std::string& layer) {
  std::vector<std::string> names = {layer.substr(layer.find('.', layer.find('.') + 1) + 1)};
  const std::string prefix(architecture_of(config).prefix);
  for (const bool alone : {true, false}) {
    const HasTensor has = [alone](const std::string&) { return alone; };
    const StoredPlaces places = hugging_face_places(config, prefix, has)(layer + ".weight");
    std::string name = places.front().name;
    if (name.ends_with(".weight")) name.resize(name.size() - std::string_view(".weight").size());
    names.push_back(name);
  }
  return names;
}

/// Whether a target is a name or its end, from a word on.
bool is_end_of(const std::string& name, const std::string& target) {
  return name == target || name.ends_with("." + target);
}

/// A layer that an adapter may stand beside.
struct TargetLayer {
  std::vector<std::string> names;
  bool of_experts;
};

bool is_target(const TargetLayer& layer, const std::string& target) {
  const std::vector<std::string>& names = layer.names;
  if (target == "all") return true;
  if (target == "attention") return names.front().starts_with("attention.");
  if (target == "experts") return layer.of_experts;
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return is_end_of(name, target); });
}

[[noreturn]] void refuse_target(const std::string& target, const std::vector<TargetLayer>& layers) {
  std::set<std::string> known = {"all"};
  for (const TargetLayer& layer : layers) {
    for (const char* group : {"attention", "experts"})
      if (is_target(layer, group)) known.insert(group);
    for (const std::string& name : layer.names) known.insert(name.substr(name.rfind('.') + 1));
  }
  throw Error(fmt::format("add_adapters: no layer is named '{}'; the targets of this model are {}", target,
                          fmt::join(known, ", ")));
}

}  // namespace

std::vector<Projection*> adapter_targets(Decoder& decoder, const std::vector<std::string>& targets) {
  if (targets.empty()) throw Error("add_adapters: no target is named; try \"attention\" or \"all\"");
  std::vector<TargetLayer> layers;
  std::vector<Projection*> chosen;
  std::set<std::string> met;
  for (std::size_t i = 0; i < decoder.blocks.size(); ++i) {
    DecoderBlock& block = decoder.blocks[i];
    const std::string block_name = fmt::format("blocks.{}.", i);
    for (const NamedProjection& own : block.adapter_layers()) {
      const TargetLayer layer{target_names(decoder.config, block_name + own.name),
                              is_expert_matrix(decoder.config, block_name + own.name + ".weight")};
      bool is_chosen = false;
      for (const std::string& target : targets) {
        if (!is_target(layer, target)) continue;
        is_chosen = true;
        met.insert(target);
      }
      if (is_chosen) chosen.push_back(own.layer);
      layers.push_back(layer);
    }
  }
  for (const std::string& target : targets)
    if (!met.contains(target)) refuse_target(target, layers);
  return chosen;
}

}  // namespace etna::models
