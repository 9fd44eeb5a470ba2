#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/profile/profile.h>

namespace etna::profile {

/// The spans of one thread, until stop() takes them. One thread appends while another may take; neither waits.
///
/// A linked list of chunks. The writer touches only the last chunk, and never again once a next one is linked. So the
/// reader owns every chunk that has a next, and in the last chunk the spans below its count.
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

  /// Called by the owning thread. @return false, with nothing appended, once the session has `most` spans here
  bool append(const Entry& entry, std::size_t most);
  /// Called by one reader at a time: appends the session's spans to `to` and discards all older ones. @return the
  /// number of spans dropped in the session
  std::uint64_t take(std::uint32_t session, std::vector<HostSpan>& to);

  const std::uint32_t number;
  std::string name;                ///< guarded by the profiler's registry
  std::atomic<bool> ended{false};  ///< the thread has exited

 private:
  static constexpr std::size_t kChunk = 1024;
  struct Chunk {
    std::array<Entry, kChunk> entries;
    std::atomic<std::size_t> count{0};
    std::atomic<Chunk*> next{nullptr};
  };

  Chunk* first_ = nullptr;  ///< owned by the reader
  std::size_t taken_ = 0;   ///< entries of first_ already taken
  std::atomic<Chunk*> head_{nullptr};
  Chunk* last_ = nullptr;  ///< owned by the writer, like the members below
  std::uint32_t session_ = 0;
  std::size_t in_session_ = 0;
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace etna::profile
