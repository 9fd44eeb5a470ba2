#include <etna/device/internal/cpu/parallel.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ETNA_PLAIN_THREADS
#endif
#endif
#if defined(__SANITIZE_THREAD__) || !defined(ETNA_HAS_TBB)
#define ETNA_PLAIN_THREADS
#endif

#ifdef ETNA_PLAIN_THREADS
#include <etna/device/internal/cpu/thread_pool.h>
#else
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#endif

namespace etna::cpu {

#ifdef ETNA_PLAIN_THREADS

int workers() { return pool::threads(); }

void detail::with_threads(int threads, void (*call)(const void*), const void* work) {
  const pool::Limit limit(threads);
  call(work);
}

void detail::parallel_for(std::int64_t n, std::int64_t grain, Chunk chunk, const void* body) {
  constexpr std::int64_t kPiecesOfThread = 4;
  pool::run(n, std::clamp<std::int64_t>(n / grain, 1, kPiecesOfThread * workers()), chunk, body);
}

#else

int workers() { return tbb::this_task_arena::max_concurrency(); }

void detail::with_threads(int threads, void (*call)(const void*), const void* work) {
  tbb::task_arena(threads).execute([&] { call(work); });
}

void detail::parallel_for(std::int64_t n, std::int64_t grain, Chunk chunk, const void* body) {
  using Range = tbb::blocked_range<std::int64_t>;
  tbb::parallel_for(Range(0, n, static_cast<std::size_t>(grain)),
                    [=](const Range& r) { chunk(body, r.begin(), r.end()); });
}

#endif

}  // namespace etna::cpu
