#include <etna/data/prefetcher.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <etna/device/internal/platform.h>
#include <etna/device/profile/profiler.h>

namespace etna::data::loading {

struct OrderedProducer::Threads {
  struct Made {
    Item item;
    std::exception_ptr failure;
  };

  Threads(Produce given, std::int64_t first, std::int64_t end, int threads, std::int64_t depth)
      : produce(std::move(given)), end(end), depth(std::max<std::int64_t>(depth, 1)), claimed(first), wanted(first) {
    const std::int64_t useful = kHasThreads ? std::min<std::int64_t>(threads, end - first) : 0;
    try {
      for (std::int64_t i = 0; i < useful; ++i) workers.emplace_back([this] { run(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Threads() { stop(); }

  Item take(std::unique_lock<std::mutex>& lock) {
    Made next = std::move(made.extract(wanted).mapped());
    ++wanted;
    lock.unlock();
    space.notify_one();
    if (next.failure) std::rethrow_exception(std::move(next.failure));
    return std::move(next.item);
  }

  void run() {
    profile::name_thread("loader");
    std::unique_lock lock(mutex);
    while (true) {
      space.wait(lock, [this] { return stopped || claimed >= end || claimed < wanted + depth; });
      if (stopped || claimed >= end) return;
      const std::int64_t item = claimed++;
      lock.unlock();
      Made next;
      try {
        profile::Scope scope("load");
        next.item = produce(item, stopped);
      } catch (...) {
        next.failure = std::current_exception();
      }
      lock.lock();
      made.emplace(item, std::move(next));
      ready.notify_one();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopped = true;
    }
    space.notify_all();
    for (std::thread& thread : workers) thread.join();
  }

  const Produce produce;
  const std::int64_t end, depth;
  std::mutex mutex;
  std::condition_variable ready, space;
  std::atomic<bool> stopped = false;
  std::int64_t claimed, wanted;  ///< the next item to make, and to hand out
  std::map<std::int64_t, Made> made;
  std::vector<std::thread> workers;
};

OrderedProducer::OrderedProducer(Produce produce, std::int64_t first, std::int64_t end, int threads, std::int64_t depth)
    : threads_(std::make_unique<Threads>(std::move(produce), first, end, threads, depth)) {}
OrderedProducer::~OrderedProducer() = default;

OrderedProducer::Item OrderedProducer::next() {
  Threads& t = *threads_;
  if (t.wanted >= t.end) return nullptr;
  if (t.workers.empty()) return t.produce(t.wanted++, t.stopped);
  std::unique_lock lock(t.mutex);
  t.ready.wait(lock, [&] { return t.made.contains(t.wanted); });
  return t.take(lock);
}

OrderedProducer::Item OrderedProducer::next_if_ready() {
  Threads& t = *threads_;
  if (t.workers.empty()) return nullptr;
  std::unique_lock lock(t.mutex);
  const auto found = t.made.find(t.wanted);
  if (found == t.made.end() || found->second.failure) return nullptr;
  return t.take(lock);
}

}  // namespace etna::data::loading
