#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <etna/models/internal/cache_node.h>
#include <etna/models/kv_cache.h>

// The states of sequences and of cached prefixes, for layers that keep one in place of keys and values.
namespace etna::models {

LayerState* KvCache::states() { return states_ ? states_->layers() : nullptr; }

std::int32_t KvCache::state_row(Id id) const { return find(id).state; }

/// A row; those of prefixes go where there is no other, the least recently used one first. -1: sequences have all.
std::int32_t KvCache::take_state() {
  std::vector<Node*>& kept = contents_->with_state;
  const std::int32_t row = states_->take();
  if (row >= 0 || kept.empty()) return row;
  drop_state(
      **std::min_element(kept.begin(), kept.end(), [](const Node* a, const Node* b) { return a->used < b->used; }));
  return states_->take();
}

void KvCache::drop_state(Node& node) {
  if (node.state < 0) return;
  states_->give_back(std::exchange(node.state, -1));
  std::erase(contents_->with_state, &node);
}

/// Gives a sequence a state, that of the longest part of its prefix behind which one was kept; else the state at
/// position 0, which counts as zero. @throws CacheFull
void KvCache::begin_state(Sequence& sequence) {
  const auto cut = [&] {
    while (!sequence.prefix.empty() && sequence.prefix.back()->state < 0) sequence.prefix.pop_back();
  };
  cut();
  if (!sequence.prefix.empty()) sequence.prefix.back()->used = clock_;  // the last one to go
  sequence.state = take_state();
  if (sequence.state < 0) {
    throw CacheFull(
        fmt::format("the cache is full: {} sequences have all {} states; use fewer sequences at once, or "
                    "give the cache more states",
                    contents_->sequences.size(), states_->rows()));
  }
  cut();
  if (sequence.prefix.empty()) return;
  const std::int32_t from[] = {sequence.prefix.back()->state}, to[] = {sequence.state};
  states_->copy(from, to);
}

void KvCache::keep_state(Id id, std::int64_t length) {
  Sequence& sequence = find(id);
  if (!states_ || !options_.reuse_prefixes) return;
  if (sequence.kept < 0) sequence.kept = take_state();
  if (sequence.kept < 0) return;
  const std::int32_t from[] = {sequence.state}, to[] = {sequence.kept};
  states_->copy(from, to);
  sequence.kept_length = length;
}

/// Gives the state that a sequence kept to the block behind which it is, or back.
/// @param tokens those whose keys and values are in the cache, from the first on
void KvCache::list_state(Sequence& sequence, std::span<const std::int32_t> tokens) {
  const std::int32_t row = std::exchange(sequence.kept, -1);
  if (row < 0) return;
  Node* at = sequence.kept_length <= std::ssize(tokens) ? sequence.root : nullptr;
  for (std::int64_t first = 0; at != nullptr && first < sequence.kept_length; first += kCacheBlock) {
    const auto child = at->children.find(cache_key(tokens, static_cast<std::size_t>(first), sequence.contents));
    at = child == at->children.end() ? nullptr : child->second.get();
  }
  if (at == nullptr || at->parent == nullptr || at->state >= 0) return states_->give_back(row);
  at->state = row;
  contents_->with_state.push_back(at);
}

void KvCache::copy_states(std::span<const Id> from, std::span<const Id> to) {
  if (!states_) return;
  std::vector<std::int32_t> sources, targets;
  for (const Id id : from) sources.push_back(state_row(id));
  for (const Id id : to) targets.push_back(state_row(id));
  states_->copy(sources, targets);
}

}  // namespace etna::models
