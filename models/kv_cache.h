#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <etna/device/owned.h>
#include <etna/models/decoder_config.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::models {

/// Which cached prefix makes room for new blocks: the one used longest ago, the oldest, or the one used least often.
enum class CacheEviction : std::uint8_t { lru, fifo, lfu };

struct KvCacheOptions {
  std::int64_t tokens = 0;  ///< positions of all sequences and cached prefixes together; 0: the model's context
  std::uint64_t bytes = 0;  ///< at most so many, whatever `tokens` says; 0: any number
  DType dtype = f16;        ///< f32, f16, bf16, or u8 for Q8_0
  CacheEviction eviction = CacheEviction::lru;
  bool reuse_prefixes = true;  ///< keep the blocks of finished sequences for prompts that begin alike
};

struct KvCacheStats {
  std::int64_t blocks = 0, in_use = 0, cached = 0;    ///< blocks of kCacheBlock positions
  std::int64_t prompt_tokens = 0, reused_tokens = 0;  ///< of all prompts, and those found in the cache
  std::int64_t evictions = 0;                         ///< cached blocks that were given up
  std::uint64_t bytes = 0;                            ///< of all blocks
  double hit_rate() const;                            ///< reused_tokens / prompt_tokens
  /// "12 of 128 blocks in use, 40 cached, 61 % of prompt tokens reused"
  std::string str() const;
};

/// The cache is full: what the sequences hold leaves no block.
struct CacheFull : Error {
  using Error::Error;
};

/// Keys and values of a decoder's sequences in blocks. A sequence takes blocks as it grows. Whole blocks of finished
/// ones stay, and a prompt that begins with the same tokens uses them again (exact tokens are compared).
class KvCache {
 public:
  using Id = std::int64_t;

  /// Takes all its memory at once. @throws ShapeError for rows that Q8_0 cannot hold; Error for sizes that cannot be;
  /// OutOfMemory
  KvCache(const DecoderConfig& config, Device device, const KvCacheOptions& options = {});
  ~KvCache();

  struct Started {
    Id id;
    std::int64_t reused;  ///< positions that are in the cache already; at least one token of the prompt is not
  };
  Started start(std::span<const std::int32_t> prompt);
  /// Makes sure that positions 0 ... length - 1 have blocks. @throws CacheFull; nothing has changed then
  void reserve(Id id, std::int64_t length);
  /// Gives back blocks behind this length.
  void truncate(Id id, std::int64_t length);
  /// Ends a sequence. @param tokens those whose keys and values are in the cache, from the first on
  void finish(Id id, std::span<const std::int32_t> tokens);
  /// Positions that drop_middle() can drop at most: not those of the first `keep`, and of the last block.
  std::int64_t droppable(std::int64_t used, std::int64_t keep) const;
  /// Drops positions between the first `keep` and the last ones, so that `room` more fit into `length`: an endless text
  /// keeps its first tokens, which attention sinks into (Xiao et al. 2023). Keys that stay are turned to their new
  /// places, in blocks of their own where other sequences share them. Both are rounded up to blocks.
  /// @param used positions that the sequence has written
  /// @return positions that were dropped @throws Error for a cache in Q8_0; CacheFull, nothing has changed then
  std::int64_t drop_middle(Id id, std::int64_t used, std::int64_t keep, std::int64_t room);

  /// Blocks of a sequence in order, then -1 up to `width`.
  std::vector<std::int32_t> row(Id id, std::int64_t width) const;
  /// Positions that a sequence can grow to at most, if nobody else takes blocks.
  std::int64_t capacity() const { return blocks_ * kCacheBlock; }
  std::vector<PagedCache>& layers() { return layers_; }
  KvCacheStats stats() const;
  /// Gives up all cached prefixes.
  void forget();

 private:
  struct Node;
  struct Sequence;
  struct Contents;

  std::int32_t take();
  bool evict_one();
  Sequence& find(Id id);
  const Sequence& find(Id id) const;
  void erase(Node& node);
  void unshare(Sequence& sequence, std::size_t first, std::size_t unwanted);
  CacheFull full(std::int64_t length) const;

  const DecoderConfig config_;
  Device device_;
  KvCacheOptions options_;
  std::int64_t blocks_ = 0;
  std::vector<PagedCache> layers_;
  std::vector<std::int32_t> free_;
  Owned<Contents> contents_;
  Id next_ = 0;
  std::int64_t clock_ = 0, cached_ = 0;
  KvCacheStats stats_;
};

}  // namespace etna::models
