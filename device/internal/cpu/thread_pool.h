#pragma once

#include <cstdint>

/// Plain threads for builds without oneTBB, and for ThreadSanitizer, which does not see how oneTBB hands over work.
/// Only parallel.cpp and thread_pool.cpp include this.
namespace etna::cpu::pool {

/// The number of threads that share a run(), the caller among them.
int threads();

using Chunk = void (*)(const void* body, std::int64_t begin, std::int64_t end);

/// Calls chunk(body, begin, end) on `chunks` equal ranges of [0, n) and returns when all have ended; the caller works
/// too. A chunk may call run() again. After an exception no further chunk starts; the first exception is rethrown.
void run(std::int64_t n, std::int64_t chunks, Chunk chunk, const void* body);

/// While one lives, run() uses this many threads when this thread calls it, or a chunk that it runs.
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
