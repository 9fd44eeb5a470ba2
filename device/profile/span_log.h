#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/profile/profile.h>

namespace etna::profile {

/// The spans of one thread, until stop() takes them. One thread appends, another may take at the same time; neither
/// waits.
///
/// A list of chunks: the writer only ever touches the last, and leaves it for good once the next hangs on it. So the
/// reader owns every chunk that has a next, and of the last one the spans below its count.
class SpanLog {
 public:
  struct Entry {
    HostSpan span;
    std::uint32_t session = 0;
  };

  explicit SpanLog(std::uint32_t number) : number(number) {}
  ~SpanLog();
  SpanLog(const SpanLog&) = delete;
  SpanLog& operator=(const SpanLog&) = delete;

  /// By the owning thread. @return false, with nothing appended, once the session has `most` spans here
  bool append(const Entry& entry, std::size_t most);
  /// By whoever reads, one at a time: appends the session's spans to `to` and forgets all older ones. @return spans
  /// dropped in it
  std::uint64_t take(std::uint32_t session, std::vector<HostSpan>& to);

  const std::uint32_t number;
  std::string name;                ///< guarded by the profiler's registry
  std::atomic<bool> ended{false};  ///< the thread is gone

 private:
  static constexpr std::size_t kChunk = 1024;
  struct Chunk {
    std::array<Entry, kChunk> entries;
    std::atomic<std::size_t> count{0};
    std::atomic<Chunk*> next{nullptr};
  };

  Chunk* first_ = nullptr;  ///< the reader's
  std::size_t taken_ = 0;   ///< of first_
  std::atomic<Chunk*> head_{nullptr};
  Chunk* last_ = nullptr;  ///< the writer's, as is what follows
  std::uint32_t session_ = 0;
  std::size_t in_session_ = 0;
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace etna::profile
