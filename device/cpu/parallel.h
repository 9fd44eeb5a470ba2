#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ETNA_PLAIN_THREADS
#endif
#endif
#if defined(__SANITIZE_THREAD__) || !defined(ETNA_HAS_TBB)
#define ETNA_PLAIN_THREADS
#endif

#ifdef ETNA_PLAIN_THREADS
#include <etna/device/cpu/thread_pool.h>
#else
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#endif

namespace etna::cpu {

/// The number of threads that share a parallel_for().
inline int workers() {
#ifdef ETNA_PLAIN_THREADS
  return pool::threads();
#else
  return tbb::this_task_arena::max_concurrency();
#endif
}

/// Calls work() on this thread; every parallel_for() in it is shared by this many threads.
template <typename Work>
void with_threads(int threads, const Work& work) {
#ifdef ETNA_PLAIN_THREADS
  const pool::Limit limit(threads);
  work();
#else
  tbb::task_arena(threads).execute(work);
#endif
}

/// Calls body(begin, end) on chunks of [0, n) from several threads. A chunk has at least `grain` elements; if n ≤
/// grain, the calling thread does all of it.
template <typename Body>
void parallel_for(std::int64_t n, std::int64_t grain, const Body& body) {
  if (n <= 0) return;
  if (n <= grain) {
    body(std::int64_t{0}, n);
    return;
  }
#ifdef ETNA_PLAIN_THREADS
  constexpr std::int64_t kPiecesOfThread = 4;
  const auto chunk = [](const void* work, std::int64_t begin, std::int64_t end) {
    (*static_cast<const Body*>(work))(begin, end);
  };
  pool::run(n, std::clamp<std::int64_t>(n / grain, 1, kPiecesOfThread * workers()), chunk, &body);
#else
  tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, n, static_cast<std::size_t>(grain)),
                    [&](const tbb::blocked_range<std::int64_t>& r) { body(r.begin(), r.end()); });
#endif
}

/// Calls body(task) for each of [0, n), in order; each task goes to the first free thread. For tasks that take much
/// longer than fetching one, on cores that other processes may slow down. parallel_for() would assign such tasks
/// beforehand, some of them in pairs.
template <typename Body>
void for_each_task(std::int64_t n, const Body& body) {
  std::atomic<std::int64_t> next{0};
  parallel_for(std::min<std::int64_t>(n, workers()), 1, [&](std::int64_t, std::int64_t) {
    for (std::int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n;) body(task);
  });
}

}  // namespace etna::cpu
