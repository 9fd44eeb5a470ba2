#pragma once

#include <cstdint>

/// Plain threads for builds without oneTBB, and for ThreadSanitizer, which does not see how oneTBB hands over work.
/// Only parallel.cpp and thread_pool.cpp include this.
namespace etna::cpu::pool {

/// The number of threads that share a run(), the caller among them.
int threads();

using Chunk = void (*)(const void* body, std::int64_t begin, std::int64_t end);

/// Calls chunk(body, begin, end) on `pieces` equal parts of [0, n), the caller taking part, and returns when all have
/// ended. Parts may call run() again. After an exception no further part begins; the first one is rethrown.
void run(std::int64_t n, std::int64_t pieces, Chunk chunk, const void* body);

/// While one lives, run() of this thread, and of parts that it runs, uses this many threads.
class Limit {
 public:
  explicit Limit(int threads);
  ~Limit();
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  int before_;
};

}  // namespace etna::cpu::pool
