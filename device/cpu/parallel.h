#pragma once

#include <cstdint>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ETNA_PLAIN_THREADS
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define ETNA_PLAIN_THREADS
#endif

#ifdef ETNA_PLAIN_THREADS
#include <algorithm>
#include <exception>
#include <thread>
#include <vector>
#else
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#endif

namespace etna::cpu {

/// Calls body(begin, end) over [0, n) from several threads, in pieces of at least `grain`; from this thread alone where n is
/// no more than that.
template <typename Body>
void parallel_for(std::int64_t n, std::int64_t grain, const Body& body) {
  if (n <= 0) return;
  if (n <= grain) {
    body(std::int64_t{0}, n);
    return;
  }
#ifdef ETNA_PLAIN_THREADS
  // ThreadSanitizer does not see how oneTBB, which was compiled without it, hands work over; it sees threads begin and end.
  const std::int64_t pieces = std::clamp<std::int64_t>(n / grain, 1, 4);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(pieces));
  std::vector<std::thread> threads;
  for (std::int64_t p = 0; p < pieces; ++p) {
    threads.emplace_back([&, p] {
      try {
        body(n * p / pieces, n * (p + 1) / pieces);
      } catch (...) {
        failures[static_cast<std::size_t>(p)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
#else
  tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, n, static_cast<std::size_t>(grain)),
                    [&](const tbb::blocked_range<std::int64_t>& r) { body(r.begin(), r.end()); });
#endif
}

}  // namespace etna::cpu
