#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <etna/models/internal/state_cache.h>
#include <etna/models/kv_cache.h>

/// The contents of a KvCache. Internal.
namespace etna::models {

/// What a layer keeps of a position.
struct CachedRows {
  std::int64_t heads = 0;  ///< of keys; 0: the layer keeps none, or attends to another layer's
  std::int64_t size = 0;   ///< elements of a head
  bool has_values = true;  ///< else the rows of keys are values, too: those of latent attention
};
CachedRows cached_rows_of(const DecoderConfig& config, std::int64_t layer);

/// Bytes of the keys and values of a block of positions in one layer; 0 where it attends to another layer's.
std::int64_t cache_block_bytes(const DecoderConfig& config, std::int64_t layer, DType dtype);

/// Tokens [first, first + kCacheBlock) of a text as a node's key: behind them, what stands in their places.
std::vector<std::int32_t> cache_key(std::span<const std::int32_t> tokens, std::size_t first,
                                    std::span<const CachedContent> contents = {});

/// A whole block of a prefix: the tokens in it, behind those of its parents.
struct KvCache::Node {
  using Rank = std::array<std::int64_t, 3>;  ///< the least is evicted first
  Node* parent = nullptr;
  std::map<std::vector<std::int32_t>, std::unique_ptr<Node>> children;  ///< by cache_key()
  std::int32_t block = -1;
  std::int32_t state = -1;  ///< row of the state behind the block, where it was kept
  std::int64_t users = 0;   ///< sequences
  std::int64_t made = 0, used = 0, uses = 0;
  std::optional<Rank> rank;  ///< its place in Contents::evictable, if it is there
};

struct KvCache::Sequence {
  Node* root;  ///< of its adapter and shift
  std::vector<CachedContent> contents;
  bool known = true;              ///< CachedPrompt::known
  std::vector<Node*> prefix;      ///< shared blocks, never written
  std::vector<std::int32_t> own;  ///< blocks behind them
  std::int32_t state = -1;        ///< row of its state, where layers keep one
  std::int32_t kept = -1;         ///< row of the state behind `kept_length` positions, which no prefix has yet
  std::int64_t kept_length = 0;
};

struct KvCache::Contents {
  std::map<Id, Sequence> sequences;
  /// By adapter, -1: of sequences without one; and by shift.
  std::map<std::pair<std::int64_t, std::int64_t>, Node> roots;
  /// Blocks that nothing needs: without users and without blocks behind them. A block is of no use without those before
  /// it, so only the last ones of prefixes can be evicted.
  std::map<Node::Rank, Node*> evictable;
  std::vector<Node*> with_state;
};

}  // namespace etna::models
