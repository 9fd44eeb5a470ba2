#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace etna::cpu {

/// The number of threads that share a parallel_for().
int workers();

namespace detail {

// One function for every body: instantiating oneTBB's templates for each body would take a third of the compile time.
using Chunk = void (*)(const void* body, std::int64_t begin, std::int64_t end);
void parallel_for(std::int64_t n, std::int64_t grain, Chunk chunk, const void* body);
void with_threads(int threads, void (*call)(const void* work), const void* work);

}  // namespace detail

/// Calls work() on this thread; every parallel_for() in it is shared by this many threads.
template <typename Work>
void with_threads(int threads, const Work& work) {
  detail::with_threads(
      threads, [](const void* f) { (*static_cast<const Work*>(f))(); }, &work);
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
  detail::parallel_for(
      n, grain, [](const void* f, std::int64_t begin, std::int64_t end) { (*static_cast<const Body*>(f))(begin, end); },
      &body);
}

/// Calls body(task) for each of [0, n), in order; the first free thread takes the next task. Use it for tasks that take
/// much longer than fetching one, on cores that other processes may slow down: parallel_for() would assign the tasks
/// beforehand, some of them in pairs.
template <typename Body>
void for_each_task(std::int64_t n, const Body& body) {
  std::atomic<std::int64_t> next{0};
  parallel_for(std::min<std::int64_t>(n, workers()), 1, [&](std::int64_t, std::int64_t) {
    for (std::int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n;) body(task);
  });
}

}  // namespace etna::cpu
