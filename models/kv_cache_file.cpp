#include <algorithm>

#include <fmt/format.h>

#include <etna/models/internal/cache_node.h>
#include <etna/models/kv_cache.h>
#include <etna/tensor/io/internal/content_hash.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>

// Cached prefixes in a file.
namespace etna::models {
namespace {

constexpr const char* kCacheFormat = "etna kv cache 1";

NamedTensors sorted_by_name(const std::map<std::string, Tensor>& tensors) { return {tensors.begin(), tensors.end()}; }

/// Whether a layer's keys are its own, and not an earlier layer's.
bool has_own_keys(const DecoderConfig& config, std::size_t layer) {
  return config.layer(static_cast<std::int64_t>(layer)).shares < 0;
}

/// @throws FormatError
void refuse_states(const FilePath& path, bool keeps_states) {
  if (!keeps_states) return;
  throw FormatError(
      fmt::format("{}: prefixes of models whose layers keep a state are not kept in files; leave the file "
                  "out",
                  path.string()));
}

}  // namespace

void KvCache::save(const FilePath& path, const std::string& model) const {
  refuse_states(path, keeps_states());
  const auto adapter_of = [&](const Node& root) {
    const auto own = std::find_if(contents_->roots.begin(), contents_->roots.end(),
                                  [&](const auto& other) { return &other.second == &root; });
    return static_cast<std::int32_t>(own->first.first);
  };
  std::vector<const Node*> nodes;
  const auto visit = [&](const auto& self, const Node& node) -> void {
    for (const auto& [tokens, child] : node.children) {
      if (tokens.size() > static_cast<std::size_t>(kCacheBlock)) continue;  // of an image, whose number is this cache's
      nodes.push_back(child.get());
      self(self, *child);
    }
  };
  std::map<const Node*, std::int32_t> places;
  for (const auto& [kind, root] : contents_->roots) {
    if (kind.second != 0) continue;  // of prompts with images
    visit(visit, root);
    places.emplace(&root, -1);
  }
  // Those used last come first. A block was used whenever one behind it was, so that it precedes it.
  std::stable_sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->used > b->used; });
  std::vector<std::int32_t> parents, adapters, tokens, blocks;
  for (const Node* node : nodes) {
    places.emplace(node, static_cast<std::int32_t>(blocks.size()));
    parents.push_back(places.at(node->parent));
    adapters.push_back(parents.back() < 0 ? adapter_of(*node->parent)
                                          : adapters[static_cast<std::size_t>(parents.back())]);
    blocks.push_back(node->block);
    for (const auto& [key, child] : node->parent->children)
      if (child.get() == node) tokens.insert(tokens.end(), key.begin(), key.end());
  }
  const auto count = std::ssize(blocks);
  const Tensor chosen = from_vector(blocks, {count}, device_);
  NamedTensors all{{"parents", from_vector(parents, {count})},
                   {"adapters", from_vector(adapters, {count})},
                   {"tokens", from_vector(tokens, {count, kCacheBlock})}};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!has_own_keys(config_, i)) continue;
    all.emplace_back(fmt::format("keys.{}", i), index_select(layers_[i].keys, 0, chosen).to(kCPU));
    if (!layers_[i].values.defined()) continue;
    all.emplace_back(fmt::format("values.{}", i), index_select(layers_[i].values, 0, chosen).to(kCPU));
  }
  Metadata metadata{{"format", kCacheFormat}, {"model", model}};
  metadata["hash"] = content_hash(all, metadata);
  save_safetensors(path, all, metadata);
}

std::int64_t KvCache::load(const FilePath& path, const std::string& model) {
  refuse_states(path, keeps_states());
  const auto refuse = [&](const std::string& why) { throw FormatError(fmt::format("{}: {}", path.string(), why)); };
  Metadata metadata = load_safetensors_metadata(path);
  if (metadata["format"] != kCacheFormat) refuse("this is no file of cached prefixes");
  if (metadata["model"] != model) refuse("these prefixes were cached for another model, or with other weights");
  const std::map<std::string, Tensor> tensors = load_safetensors(path);
  const std::string hash = metadata["hash"];
  metadata.erase("hash");
  if (content_hash(sorted_by_name(tensors), metadata) != hash) refuse("the file is damaged: its hash differs");
  const auto find_tensor = [&](const std::string& name, const Shape& shape, DType dtype) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) refuse(fmt::format("'{}' is missing", name));
    if (found->second.dtype() != dtype || found->second.shape() != shape) {
      refuse(fmt::format("'{}' is {} {}; this cache has {} {}", name, etna::name(found->second.dtype()),
                         str(found->second.shape()), etna::name(dtype), str(shape)));
    }
    return found->second;
  };
  const auto listed = tensors.find("parents");
  const std::int64_t count = listed == tensors.end() || listed->second.dim() != 1 ? 0 : listed->second.size(0);
  // Files of before adapters were per sequence have no such list.
  const std::vector<std::int32_t> parents = find_tensor("parents", {count}, i32).to_vector<std::int32_t>(),
                                  adapters = tensors.contains("adapters")
                                                 ? find_tensor("adapters", {count}, i32).to_vector<std::int32_t>()
                                                 : std::vector<std::int32_t>(parents.size(), -1),
                                  tokens = find_tensor("tokens", {count, kCacheBlock}, i32).to_vector<std::int32_t>();
  for (std::size_t i = 0; i < parents.size(); ++i)
    if (parents[i] < -1 || parents[i] >= static_cast<std::int32_t>(i))
      refuse(fmt::format("block {} follows block {}, which is not before it", i, parents[i]));
  for (const std::int32_t adapter : adapters)
    if (adapter < -1) refuse(fmt::format("a block has adapter {}; wanted -1 (none) or an index", adapter));
  for (const std::int32_t token : tokens)
    if (token < 0 || token >= config_.vocabulary)
      refuse(fmt::format("token {} is not in the model's vocabulary of {}", token, config_.vocabulary));
  const auto rows = [count](const Tensor& x) {
    Shape shape = x.shape();
    shape[0] = count;
    return shape;
  };
  std::vector<PagedCache> blocks;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!has_own_keys(config_, i)) {
      blocks.emplace_back();
      continue;
    }
    PagedCache& own = blocks.emplace_back();
    own.keys = find_tensor(fmt::format("keys.{}", i), rows(layers_[i].keys), options_.dtype);
    if (layers_[i].values.defined())
      own.values = find_tensor(fmt::format("values.{}", i), rows(layers_[i].values), options_.dtype);
  }
  if (!options_.reuse_prefixes) return 0;
  return insert(parents, adapters, tokens, blocks);
}

/// Adds blocks of a file as far as there are free ones. @param blocks of each layer @return blocks added
std::int64_t KvCache::insert(std::span<const std::int32_t> parents, std::span<const std::int32_t> adapters,
                             std::span<const std::int32_t> tokens, const std::vector<PagedCache>& blocks) {
  const auto key_of = [&](std::size_t i) { return cache_key(tokens, i * kCacheBlock); };
  // Which blocks are new, and where they go. Nothing changes until all are written.
  std::vector<Node*> known(parents.size());
  std::vector<std::int32_t> from, to;
  std::vector<std::size_t> added;
  const auto parent_of = [&](std::size_t i) {
    return parents[i] < 0 ? &contents_->roots[{adapters[i], 0}] : known[static_cast<std::size_t>(parents[i])];
  };
  for (std::size_t i = 0; i < parents.size(); ++i) {
    Node* parent = parent_of(i);
    if (parent != nullptr) {
      const auto child = parent->children.find(key_of(i));
      if (child != parent->children.end()) known[i] = child->second.get();
    }
    if (known[i] != nullptr) continue;
    if (from.size() == free_.size()) break;
    from.push_back(static_cast<std::int32_t>(i));
    to.push_back(free_[free_.size() - from.size()]);
    added.push_back(i);
  }
  if (from.empty()) return 0;
  const Tensor sources = from_vector(from), places = from_vector(to, device_);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!has_own_keys(config_, i)) continue;
    layers_[i].keys.index_put_({Index(places)}, index_select(blocks[i].keys, 0, sources).to(device_));
    if (!layers_[i].values.defined()) continue;
    layers_[i].values.index_put_({Index(places)}, index_select(blocks[i].values, 0, sources).to(device_));
  }
  std::int64_t count = 0;
  for (std::size_t k = 0; k < added.size(); ++k) {
    const std::size_t i = added[k];
    Node* parent = parent_of(i);
    const auto [place, is_new] = parent->children.try_emplace(key_of(i));
    if (is_new) {
      place->second = std::make_unique<Node>();
      place->second->parent = parent;
      place->second->block = to[k];
      place->second->made = place->second->used = clock_ + std::ssize(parents) - static_cast<std::int64_t>(i);
      list(*place->second);
      list(*parent);
      ++count;
    }
    known[i] = place->second.get();
  }
  // A file that names a block twice leaves some blocks free.
  std::vector<std::int32_t> rest;
  const auto used = [&](std::int32_t block) {
    return std::any_of(known.begin(), known.end(), [&](const Node* n) { return n != nullptr && n->block == block; });
  };
  for (const std::int32_t block : to)
    if (!used(block)) rest.push_back(block);
  free_.resize(free_.size() - to.size());
  free_.insert(free_.end(), rest.begin(), rest.end());
  clock_ += std::ssize(parents) + 1;
  cached_ += count;
  return count;
}

}  // namespace etna::models
