#include <etna/device/profile/internal/span_log.h>

namespace etna::profile {

SpanLog::~SpanLog() {
  Chunk* chunk = first_ != nullptr ? first_ : head_.load();
  while (chunk != nullptr) {
    Chunk* next = chunk->next;
    delete chunk;
    chunk = next;
  }
}

bool SpanLog::append(const Entry& entry, std::size_t most) {
  if (entry.session != session_) {
    session_ = entry.session;
    in_session_ = 0;
    dropped_ = 0;
  }
  if (in_session_ >= most) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (last_ == nullptr || last_->count.load(std::memory_order_relaxed) == kChunk) {
    auto* chunk = new Chunk;
    (last_ == nullptr ? head_ : last_->next).store(chunk, std::memory_order_release);
    last_ = chunk;
  }
  std::size_t at = last_->count.load(std::memory_order_relaxed);
  last_->entries[at] = entry;
  last_->count.store(at + 1, std::memory_order_release);
  ++in_session_;
  return true;
}

std::uint64_t SpanLog::take(std::uint32_t session, std::vector<HostSpan>& to) {
  if (first_ == nullptr) first_ = head_.load(std::memory_order_acquire);
  while (first_ != nullptr) {
    // Read `next` before `count`: a chunk that has a next is full.
    Chunk* next = first_->next.load(std::memory_order_acquire);
    std::size_t count = first_->count.load(std::memory_order_acquire);
    for (; taken_ < count; ++taken_) {
      const Entry& entry = first_->entries[taken_];
      if (entry.session != session) continue;
      to.push_back(entry.span);
      to.back().thread = number;
    }
    if (next == nullptr) break;
    delete first_;
    first_ = next;
    taken_ = 0;
  }
  return dropped_.exchange(0);
}

}  // namespace etna::profile
