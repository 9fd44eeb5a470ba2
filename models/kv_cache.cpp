#include <etna/models/kv_cache.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <etna/models/internal/cache_node.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>
#include <etna/tensor/ops/indexing/indexing.h>

namespace etna::models {
namespace {

/// Block tables and positions are i32.
constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max() / kCacheBlock;

std::int64_t blocks_for(std::int64_t positions) { return positions / kCacheBlock + (positions % kCacheBlock != 0); }

PagedCache empty_cache(const CachedRows& rows, std::int64_t blocks, const TensorOptions& options) {
  if (rows.heads == 0) return {};
  if (rows.has_values) return paged_cache(blocks, rows.heads, rows.size, options);
  return {
      zeros({blocks, rows.heads, kCacheBlock, options.dtype == u8 ? cache_row_bytes(rows.size) : rows.size}, options),
      {}};
}

}  // namespace

double KvCacheStats::hit_rate() const {
  return prompt_tokens == 0 ? 0 : static_cast<double>(reused_tokens) / static_cast<double>(prompt_tokens);
}

std::string KvCacheStats::str() const {
  return fmt::format("{} of {} blocks in use, {} cached, {:.0f} % of prompt tokens reused", in_use, blocks, cached,
                     100 * hit_rate());
}

CachedRows cached_rows_of(const DecoderConfig& config, std::int64_t layer) {
  const LayerConfig own = config.layer(layer);
  if (own.shares >= 0 || !own.has_attention()) return {};
  if (config.latent.size > 0) return {1, config.rope.size + config.latent.size, false};
  return {own.kv_heads > 0 ? own.kv_heads : config.kv_heads, own.head_size > 0 ? own.head_size : config.head_size};
}

std::int64_t cache_block_bytes(const DecoderConfig& config, std::int64_t layer, DType dtype) {
  const CachedRows rows = cached_rows_of(config, layer);
  if (rows.heads == 0) return 0;
  const std::int64_t row =
      dtype == u8 ? cache_row_bytes(rows.size) : rows.size * static_cast<std::int64_t>(item_size(dtype));
  return checked_product((rows.has_values ? 2 : 1) * rows.heads * kCacheBlock, row, "KvCache");
}

KvCache::KvCache(const DecoderConfig& config, Device device, const KvCacheOptions& options)
    : config_(config), device_(device), options_(options), contents_(std::make_unique<Contents>()) {
  std::int64_t block = 0;
  for (std::int64_t i = 0; i < config.layers; ++i) block += cache_block_bytes(config, i, options.dtype);
  if (options.tokens < 0)
    throw Error(fmt::format("KvCache: tokens is {}; wanted 0 (the model's context) or more", options.tokens));
  blocks_ = blocks_for(options.tokens > 0 ? options.tokens : config.context);
  if (options.bytes > 0)
    blocks_ = static_cast<std::int64_t>(
        std::min(static_cast<std::uint64_t>(blocks_),
                 options.bytes / static_cast<std::uint64_t>(std::max<std::int64_t>(block, 1))));
  if (blocks_ < 1) {
    throw Error(fmt::format("KvCache: {} cannot hold a block of {} positions, which takes {}",
                            readable_bytes(options.bytes), kCacheBlock,
                            readable_bytes(static_cast<std::uint64_t>(block))));
  }
  if (blocks_ > kMaxBlocks) {
    throw Error(fmt::format("KvCache: got {} blocks of {} positions; wanted at most {}, so ask for fewer tokens",
                            blocks_, kCacheBlock, kMaxBlocks));
  }
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const Device on = i < options.host_layers ? kCPU : device;
    if (const std::int64_t source = config.layer(i).shares; source >= 0) {
      layers_.push_back(layers_[static_cast<std::size_t>(source)]);
      continue;
    }
    layers_.push_back(empty_cache(cached_rows_of(config, i), blocks_, {options.dtype, on}));
  }
  for (std::int64_t i = blocks_; i-- > 0;) free_.push_back(static_cast<std::int32_t>(i));
  stats_.blocks = blocks_;
  stats_.bytes = static_cast<std::uint64_t>(blocks_ * block);
  if (!config.has_state()) return;
  if (options.states < 0) throw Error(fmt::format("KvCache: states is {}; wanted 0 (a few) or more", options.states));
  const std::int64_t states = options.states > 0 ? options.states : 4;
  states_ = std::make_unique<StateCache>(config, device, states, options.host_layers);
  stats_.bytes += StateCache::bytes(config, states);
}

KvCache::~KvCache() = default;

KvCache::Sequence& KvCache::find(Id id) {
  const auto found = contents_->sequences.find(id);
  if (found == contents_->sequences.end()) throw Error(fmt::format("KvCache: no sequence has id {}", id));
  return found->second;
}

const KvCache::Sequence& KvCache::find(Id id) const { return const_cast<KvCache*>(this)->find(id); }

std::vector<std::int32_t> cache_key(std::span<const std::int32_t> tokens, std::size_t first,
                                    std::span<const CachedContent> contents) {
  const std::span<const std::int32_t> own = tokens.subspan(first, kCacheBlock);
  std::vector<std::int32_t> key(own.begin(), own.end());
  const auto begin = static_cast<std::int64_t>(first);
  for (const CachedContent& content : contents) {
    if (content.end <= begin || content.begin >= begin + kCacheBlock) continue;
    key.push_back(static_cast<std::int32_t>(content.number));
    key.push_back(static_cast<std::int32_t>(content.number >> 32));
  }
  return key;
}

KvCache::Started KvCache::start(std::span<const std::int32_t> prompt, const CachedPrompt& more) {
  Node* at = &contents_->roots[{more.adapter, more.shift}];
  Sequence sequence{.root = at, .contents = more.contents, .known = more.known, .prefix = {}, .own = {}};
  ++clock_;
  const bool reuses = more.known && options_.reuse_prefixes;
  for (std::size_t first = 0; reuses && first + kCacheBlock < prompt.size(); first += kCacheBlock) {
    const auto child = at->children.find(cache_key(prompt, first, more.contents));
    if (child == at->children.end()) break;
    at = child->second.get();
    sequence.prefix.push_back(at);
  }
  // Chunks of prompts do not cut contents, nor do prefixes.
  const auto cuts = [&](const CachedContent& content) {
    const std::int64_t end = std::ssize(sequence.prefix) * kCacheBlock;
    return content.begin < end && end < content.end;
  };
  while (std::any_of(more.contents.begin(), more.contents.end(), cuts)) sequence.prefix.pop_back();
  if (states_) begin_state(sequence);
  for (Node* node : sequence.prefix) {
    if (node->users++ == 0) --cached_;
    node->used = clock_;
    ++node->uses;
    list(*node);
  }
  const auto reused = static_cast<std::int64_t>(sequence.prefix.size()) * kCacheBlock;
  stats_.prompt_tokens += static_cast<std::int64_t>(prompt.size());
  stats_.reused_tokens += reused;
  contents_->sequences.emplace(next_, std::move(sequence));
  return {next_++, reused};
}

/// Lists a block among those that can be evicted, or not, when what decides it has changed.
void KvCache::list(Node& node) {
  if (node.rank) contents_->evictable.erase(*node.rank);
  node.rank.reset();
  if (node.parent == nullptr || !node.children.empty() || node.users > 0) return;
  const std::int64_t uses = options_.eviction == CacheEviction::lfu ? node.uses : 0;
  node.rank = {uses, options_.eviction == CacheEviction::fifo ? node.made : node.used, node.block};
  contents_->evictable.emplace(*node.rank, &node);
}

bool KvCache::evict_one() {
  if (contents_->evictable.empty()) return false;
  Node& first = *contents_->evictable.begin()->second;
  free_.push_back(first.block);
  --cached_;
  ++stats_.evictions;
  erase(first);
  return true;
}

void KvCache::erase(Node& node) {
  drop_state(node);
  if (node.rank) contents_->evictable.erase(*node.rank);
  Node& parent = *node.parent;
  parent.children.erase(std::find_if(parent.children.begin(), parent.children.end(),
                                     [&](const auto& child) { return child.second.get() == &node; }));
  list(parent);
}

std::int32_t KvCache::take() {
  if (free_.empty() && !evict_one()) return -1;
  const std::int32_t block = free_.back();
  free_.pop_back();
  return block;
}

CacheFull KvCache::full(std::int64_t length) const {
  return CacheFull(fmt::format(
      "the KV cache is full: {} positions requested, but {} of {} blocks are in use by {} sequences; give the cache "
      "more tokens, or use fewer or shorter sequences",
      length, stats().in_use, blocks_, contents_->sequences.size()));
}

void KvCache::reserve(Id id, std::int64_t length) {
  Sequence& sequence = find(id);
  const std::size_t before = sequence.own.size();
  const auto needed = static_cast<std::size_t>(blocks_for(length));
  while (sequence.prefix.size() + sequence.own.size() < needed) {
    const std::int32_t block = take();
    if (block < 0) {
      free_.insert(free_.end(), sequence.own.begin() + static_cast<std::ptrdiff_t>(before), sequence.own.end());
      sequence.own.resize(before);
      throw full(length);
    }
    sequence.own.push_back(block);
  }
}

void KvCache::truncate(Id id, std::int64_t length) {
  Sequence& sequence = find(id);
  const auto needed = static_cast<std::size_t>(blocks_for(length));
  while (!sequence.own.empty() && sequence.prefix.size() + sequence.own.size() > needed) {
    free_.push_back(sequence.own.back());
    sequence.own.pop_back();
  }
}

void KvCache::finish(Id id, std::span<const std::int32_t> tokens) {
  Sequence& sequence = find(id);
  ++clock_;
  Node* at = sequence.root;
  for (Node* node : sequence.prefix) {
    if (--node->users == 0) ++cached_;
    node->used = clock_;
    list(*node);
    at = node;
  }
  std::size_t first = sequence.prefix.size() * kCacheBlock;
  for (const std::int32_t block : sequence.own) {
    const std::size_t end = first + kCacheBlock;
    const bool whole = options_.reuse_prefixes && sequence.known && at != nullptr && end <= tokens.size();
    if (!whole) {
      free_.push_back(block);
      at = nullptr;
      continue;
    }
    const auto [place, added] = at->children.try_emplace(cache_key(tokens, first, sequence.contents));
    if (added) {
      place->second = std::make_unique<Node>();
      Node& node = *place->second;
      node.parent = at;
      node.block = block;
      node.made = node.used = clock_;
      ++cached_;
      list(node);
      list(*at);
    } else {
      free_.push_back(block);  // another sequence had the same tokens
    }
    at = place->second.get();
    first = end;
  }
  list_state(sequence, tokens);
  if (sequence.state >= 0) states_->give_back(sequence.state);
  contents_->sequences.erase(id);
}

void KvCache::share(Id id, std::span<const std::int32_t> tokens) {
  Sequence& sequence = find(id);
  if (!options_.reuse_prefixes || !sequence.known) return;
  ++clock_;
  for (Node* node : sequence.prefix) node->used = clock_;
  Node* at = sequence.prefix.empty() ? sequence.root : sequence.prefix.back();
  while (!sequence.own.empty()) {
    const std::size_t first = sequence.prefix.size() * kCacheBlock, end = first + kCacheBlock;
    if (end > tokens.size()) break;
    const auto [place, added] = at->children.try_emplace(cache_key(tokens, first, sequence.contents));
    if (!added) break;  // another sequence had the same tokens; this one keeps its own blocks
    place->second = std::make_unique<Node>();
    Node& node = *place->second;
    node.parent = at;
    node.block = sequence.own.front();
    node.users = 1;
    node.made = node.used = clock_;
    list(*at);
    sequence.own.erase(sequence.own.begin());
    sequence.prefix.push_back(&node);
    at = &node;
  }
  list_state(sequence, tokens);
}

std::int64_t KvCache::droppable(std::int64_t used, std::int64_t keep) const {
  return std::max<std::int64_t>(0, blocks_for(used) - blocks_for(std::min(keep, used)) - 1) * kCacheBlock;
}

/// Makes the sequence the only owner of its blocks from `first` on (copy on write): shared blocks without other users
/// are removed from the prefix tree, others are copied. The first `unwanted` blocks are dropped instead.
/// @throws CacheFull, without changing anything
void KvCache::unshare(Sequence& sequence, std::size_t first, std::size_t unwanted) {
  std::vector<Node*>& prefix = sequence.prefix;
  if (first >= prefix.size()) {
    const auto begin = sequence.own.begin() + static_cast<std::ptrdiff_t>(first - prefix.size());
    free_.insert(free_.end(), begin, begin + static_cast<std::ptrdiff_t>(unwanted));
    sequence.own.erase(begin, begin + static_cast<std::ptrdiff_t>(unwanted));
    return;
  }
  const std::size_t wanted = std::min(first + unwanted, prefix.size());
  std::size_t copied = prefix.size();  // nodes from here on have no other user
  while (copied > wanted && prefix[copied - 1]->users == 1 &&
         (copied == prefix.size() ? prefix[copied - 1]->children.empty() : prefix[copied - 1]->children.size() == 1))
    --copied;
  std::vector<std::int32_t> from, to;
  for (std::size_t i = wanted; i < copied; ++i) {
    const std::int32_t block = take();
    if (block < 0) {
      free_.insert(free_.end(), to.begin(), to.end());
      throw full(blocks_for(static_cast<std::int64_t>(prefix.size() + sequence.own.size())) * kCacheBlock);
    }
    from.push_back(prefix[i]->block);
    to.push_back(block);
  }
  if (!to.empty()) {
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      if (config_.layer(i).shares >= 0) continue;
      PagedCache& layer = layers_[static_cast<std::size_t>(i)];
      const Device on = layer.keys.device();
      const Tensor sources = from_vector(from, on), places = from_vector(to, on);
      for (Tensor* rows : {&layer.keys, &layer.values})
        if (rows->defined()) rows->index_put_({Index(places)}, index_select(*rows, 0, sources));
    }
  }
  for (std::size_t i = copied; i < prefix.size(); ++i) to.push_back(prefix[i]->block);
  const std::size_t dropped_own = first + unwanted - wanted;
  const auto kept_own = sequence.own.begin() + static_cast<std::ptrdiff_t>(dropped_own);
  free_.insert(free_.end(), sequence.own.begin(), kept_own);
  to.insert(to.end(), kept_own, sequence.own.end());
  sequence.own = std::move(to);
  while (prefix.size() > first) {
    Node* node = prefix.back();
    const bool taken_over = prefix.size() > copied;
    prefix.pop_back();
    if (--node->users > 0) continue;
    if (taken_over) {
      erase(*node);
    } else {
      ++cached_;
      list(*node);
    }
  }
}

std::int64_t KvCache::drop_middle(Id id, std::int64_t used, std::int64_t keep, std::int64_t room) {
  if (states_) throw Error("KvCache: a state forgets no positions; a text of this model cannot lose its middle");
  if (options_.dtype == u8)
    throw Error("KvCache: keys in Q8_0 cannot be rotated to other positions; use an f16 cache for endless texts");
  Sequence& sequence = find(id);
  const auto kept = static_cast<std::size_t>(blocks_for(std::min(keep, used)));
  const std::int64_t drop = std::min(blocks_for(room), droppable(used, keep) / kCacheBlock);
  if (drop < 1) return 0;
  unshare(sequence, kept, static_cast<std::size_t>(drop));
  if (config_.positions != PositionKind::rotary) return drop * kCacheBlock;
  // Keys are rotated by the angle of their old position; the difference is the same for all of them.
  const std::vector<std::int32_t> moved(
      sequence.own.begin() + static_cast<std::ptrdiff_t>(kept - sequence.prefix.size()), sequence.own.end());
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    if (!config_.layer(i).rotary || config_.layer(i).shares >= 0) continue;
    Tensor& keys = layers_[static_cast<std::size_t>(i)].keys;
    const Device on = keys.device();
    const Tensor blocks = from_vector(moved, on),
                 frequencies = from_vector(config_.of_layer(i).rope_frequencies(i), on);
    const Tensor back = etna::full({kCacheBlock}, -static_cast<double>(drop * kCacheBlock), {i32, on});
    const Tensor turned = rope(index_select(keys, 0, blocks), frequencies, back, config_.rope.interleaved);
    keys.index_put_({Index(blocks)}, turned);
  }
  return drop * kCacheBlock;
}

std::vector<std::int32_t> KvCache::row(Id id, std::int64_t width) const {
  const Sequence& sequence = find(id);
  std::vector<std::int32_t> blocks;
  for (const Node* node : sequence.prefix) blocks.push_back(node->block);
  blocks.insert(blocks.end(), sequence.own.begin(), sequence.own.end());
  blocks.resize(static_cast<std::size_t>(width), -1);
  return blocks;
}

KvCacheStats KvCache::stats() const {
  KvCacheStats stats = stats_;
  stats.cached = cached_;
  stats.in_use = blocks_ - static_cast<std::int64_t>(free_.size()) - cached_;
  return stats;
}

void KvCache::forget() {
  while (evict_one()) {}
}

}  // namespace etna::models
