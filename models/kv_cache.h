#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/device/owned.h>
#include <etna/models/decoder_config.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::models {

class StateCache;
struct LayerState;

/// Which cached prefix is evicted for new blocks: the least recently used, the oldest, or the least frequently used.
enum class CacheEviction : std::uint8_t { lru, fifo, lfu };

struct KvCacheOptions {
  std::int64_t tokens = 0;  ///< positions of all sequences and cached prefixes together; 0: the model's context
  std::uint64_t bytes = 0;  ///< upper limit, whatever `tokens` is; 0: none
  DType dtype = f16;        ///< f32, f16, bf16, or u8 for Q8_0
  CacheEviction eviction = CacheEviction::lru;
  std::int64_t host_layers = 0;  ///< the first layers, whose keys and values are on the CPU (Decoder::host_layers())
  bool reuse_prefixes = true;    ///< keep the blocks of finished sequences for prompts with the same prefix
  /// For layers that keep a state: how many states there are, of sequences and of prefixes that prompts can reuse;
  /// 0: as many as a generator's slots need, and 4 where there is none.
  std::int64_t states = 0;
};

struct KvCacheStats {
  std::int64_t blocks = 0, in_use = 0, cached = 0;    ///< blocks of kCacheBlock positions
  std::int64_t prompt_tokens = 0, reused_tokens = 0;  ///< tokens of all prompts, and those found in the cache
  std::int64_t evictions = 0;                         ///< evicted blocks
  std::uint64_t bytes = 0;                            ///< of all blocks
  double hit_rate() const;                            ///< reused_tokens / prompt_tokens
  /// "12 of 128 blocks in use, 40 cached, 61 % of prompt tokens reused"
  std::string str() const;
};

/// What stands in the place of tokens [begin, end) of a prompt, such as an image. Prefixes with another number differ.
struct CachedContent {
  std::int64_t begin = 0, end = 0, number = 0;
};

/// How a prompt differs from its tokens.
struct CachedPrompt {
  std::int64_t adapter = -1;                 ///< -1: none. Keys and values depend on it
  std::int64_t shift = 0;                    ///< by which its positions differ from those in the cache
  std::vector<CachedContent> contents = {};  ///< ascending
  bool known = true;                         ///< else no prefix is reused, nor kept
};

/// The cache is full: the sequences use all blocks.
struct CacheFull : Error {
  using Error::Error;
};

/// A paged KV cache for a decoder's sequences. A sequence gets blocks as it grows. Full blocks of finished sequences
/// are kept, and a prompt that begins with the same tokens reuses them (the tokens themselves are compared). Where
/// layers keep a state, a sequence has one, too, and a prompt reuses a prefix as far as the state behind it was kept.
class KvCache {
 public:
  using Id = std::int64_t;

  /// Allocates all memory at once. @throws ShapeError for rows that Q8_0 cannot hold; Error for invalid sizes;
  /// OutOfMemory
  KvCache(const DecoderConfig& config, Device device, const KvCacheOptions& options = {});
  ~KvCache();

  struct Started {
    Id id;
    std::int64_t reused;  ///< positions already in the cache; always fewer than the prompt's tokens
  };
  /// @param more of the prompt: only prompts that are alike in it share prefixes
  /// @throws CacheFull where layers keep a state and sequences have all of them
  Started start(std::span<const std::int32_t> prompt, const CachedPrompt& more = {});
  /// Allocates blocks for positions 0 ... length - 1. @throws CacheFull, without changing anything
  void reserve(Id id, std::int64_t length);
  /// Frees the blocks after this length.
  void truncate(Id id, std::int64_t length);
  /// Ends a sequence. @param tokens those whose keys and values are in the cache, from the first on
  void finish(Id id, std::span<const std::int32_t> tokens);
  /// Lets prompts that begin alike reuse the full blocks of a sequence that still runs.
  /// @param tokens those whose keys and values are in the cache, from the first on
  void share(Id id, std::span<const std::int32_t> tokens);
  /// The largest number of positions that drop_middle() can drop: all but the first `keep` and the last block.
  std::int64_t droppable(std::int64_t used, std::int64_t keep) const;
  /// Drops positions after the first `keep` to make room for `room` more. An endless text keeps its first tokens as
  /// attention sinks (Xiao et al. 2023). The remaining keys are rotated to their new positions; blocks that other
  /// sequences share are copied first. Both `keep` and `room` are rounded up to blocks.
  /// @param used positions that the sequence has written
  /// @return the number of dropped positions @throws Error for a cache in Q8_0, and where layers keep a state, of which
  /// nothing can be dropped; CacheFull, without changing anything
  std::int64_t drop_middle(Id id, std::int64_t used, std::int64_t keep, std::int64_t room);

  /// The row of the block table: a sequence's blocks in order, padded with -1 to `width`.
  std::vector<std::int32_t> row(Id id, std::int64_t width) const;
  /// The largest number of positions of one sequence, if no other one takes blocks.
  std::int64_t capacity() const { return blocks_ * kCacheBlock; }
  std::vector<PagedCache>& layers() { return layers_; }
  KvCacheStats stats() const;
  /// Evicts all cached prefixes.
  void forget();

  /// Whether layers keep a state.
  bool keeps_states() const { return static_cast<bool>(states_); }
  /// The states of each layer; null where none keeps one.
  LayerState* states();
  /// The row of a sequence's state; -1 where layers keep none.
  std::int32_t state_row(Id id) const;
  /// Keeps a copy of a sequence's state for prompts that begin alike, which the next share() or finish() lists. Does
  /// nothing where sequences have all states. @param length positions that the sequence has read, whole blocks
  void keep_state(Id id, std::int64_t length);
  /// Gives sequences the states of others.
  void copy_states(std::span<const Id> from, std::span<const Id> to);

  /// Writes all prefixes that prompts can reuse, but for those with images, to a safetensors file.
  /// @param model which model they belong to
  /// @throws FormatError if the file cannot be written, an existing one is then unchanged; and where layers keep a
  /// state
  void save(const FilePath& path, const std::string& model) const;
  /// Adds the prefixes of a file, those that were used last first, as far as there are free blocks; none is evicted.
  /// @return blocks added
  /// @throws FormatError for a file that is damaged or belongs to another model, and for keys of another dtype or
  /// shape; the cache is unchanged then
  std::int64_t load(const FilePath& path, const std::string& model);

 private:
  struct Node;
  struct Sequence;
  struct Contents;

  std::int32_t take();
  std::int32_t take_state();
  void begin_state(Sequence& sequence);
  void list_state(Sequence& sequence, std::span<const std::int32_t> tokens);
  void drop_state(Node& node);
  bool evict_one();
  void list(Node& node);
  Sequence& find(Id id);
  const Sequence& find(Id id) const;
  void erase(Node& node);
  std::int64_t insert(std::span<const std::int32_t> parents, std::span<const std::int32_t> adapters,
                      std::span<const std::int32_t> tokens, const std::vector<PagedCache>& blocks);
  void unshare(Sequence& sequence, std::size_t first, std::size_t unwanted);
  CacheFull full(std::int64_t length) const;

  const DecoderConfig config_;
  Device device_;
  KvCacheOptions options_;
  std::int64_t blocks_ = 0;
  std::vector<PagedCache> layers_;
  Owned<StateCache> states_;  ///< null where no layer keeps one
  std::vector<std::int32_t> free_;
  Owned<Contents> contents_;
  Id next_ = 0;
  std::int64_t clock_ = 0, cached_ = 0;
  KvCacheStats stats_;
};

}  // namespace etna::models
