// One list of runs under one mutex. An atomic counter hands out the chunks of a run, so a slow core gets fewer. A
// thread that waits for its run waits only for chunks that other threads are executing already, so nested runs cannot
// deadlock. Idle threads look for work for some microseconds before they sleep: kernels of a step follow each other
// faster than a thread wakes up.
#include <etna/device/internal/cpu/thread_pool.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <etna/device/internal/cpu/processor.h>
#include <etna/device/internal/platform.h>

namespace etna::cpu::pool {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kLeastThreads = 4;  // at least four, so that races show on any machine
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr int kLeastThreads = 4;
#else
constexpr int kLeastThreads = 1;
#endif
#else
constexpr int kLeastThreads = 1;
#endif

thread_local int limit = 0;  // 0: as many as there are

struct Run {
  Chunk chunk;
  const void* body;
  std::int64_t n, chunks;
  int most;  ///< threads
  std::atomic<std::int64_t> next{0};
  int helpers = 0;                  ///< under the pool's mutex, as is the failure
  std::exception_ptr failure = {};  ///< the first
};

class Pool {
 public:
  explicit Pool(int threads) : threads_(threads) {
    for (int i = 1; i < threads; ++i) {
      try {
        std::thread([this] { help(); }).detach();
      } catch (const std::system_error&) {
        break;  // the callers do the work of threads that the system refuses to start
      }
    }
  }

  int threads() const { return threads_; }

  void execute(Run& run) {
    {
      const std::lock_guard lock(mutex_);
      runs_.push_back(&run);
      ++waiting_;
    }
    if (std::min<std::int64_t>(run.chunks, run.most) > 2)
      work_.notify_all();
    else
      work_.notify_one();
    take_parts(run);
    std::unique_lock lock(mutex_);
    runs_.erase(std::find(runs_.begin(), runs_.end(), &run));
    --waiting_;
    ended_.wait(lock, [&run] { return run.helpers == 0; });
  }

 private:
  void take_parts(Run& run) {
    for (std::int64_t part; (part = run.next.fetch_add(1, std::memory_order_relaxed)) < run.chunks;) {
      try {
        run.chunk(run.body, run.n * part / run.chunks, run.n * (part + 1) / run.chunks);
      } catch (...) {
        run.next = run.chunks;
        const std::lock_guard lock(mutex_);
        if (!run.failure) run.failure = std::current_exception();
      }
    }
  }

  /// The newest run with chunks that nobody has taken, which is the innermost.
  Run* find() {
    for (auto at = runs_.rbegin(); at != runs_.rend(); ++at) {
      if ((*at)->next.load(std::memory_order_relaxed) < (*at)->chunks && (*at)->helpers + 1 < (*at)->most) return *at;
    }
    return nullptr;
  }

  void help() {
    for (;;) {
      for (int look = 0; look < 100 && waiting_.load(std::memory_order_relaxed) == 0; ++look) std::this_thread::yield();
      std::unique_lock lock(mutex_);
      Run* run = nullptr;
      work_.wait(lock, [&] { return (run = find()) != nullptr; });
      ++run->helpers;
      lock.unlock();
      limit = run->most;
      take_parts(*run);
      lock.lock();
      if (--run->helpers == 0) ended_.notify_all();
    }
  }

  const int threads_;
  std::mutex mutex_;
  std::condition_variable work_, ended_;
  std::vector<Run*> runs_;
  std::atomic<int> waiting_{0};  ///< the size of runs_
};

Pool& pool() {
  // Never destroyed: its threads wait until the process ends.
  static auto* made = new Pool(kHasThreads ? std::max(kLeastThreads, static_cast<int>(cpu::threads())) : 1);
  return *made;
}

}  // namespace

int threads() { return limit > 0 ? limit : pool().threads(); }

void run(std::int64_t n, std::int64_t chunks, Chunk chunk, const void* body) {
  const int most = threads();
  if (chunks <= 1 || most <= 1) return chunk(body, 0, n);
  Run run{chunk, body, n, chunks, most};
  pool().execute(run);
  if (run.failure) std::rethrow_exception(run.failure);
}

Limit::Limit(int threads) : before_(limit) { limit = threads; }
Limit::~Limit() { limit = before_; }

}  // namespace etna::cpu::pool
