#include <etna/dist/internal/worker.h>

#include <utility>

namespace etna::distributed {

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::run() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      if (wrong_) job = nullptr;
      running_ = true;
    }
    std::exception_ptr thrown;
    try {
      if (job) job();
    } catch (...) {
      thrown = std::current_exception();
    }
    if (thrown) {
      const std::lock_guard lock(mutex_);
      wrong_ = thrown;  // before the job ends: who waits for that asks here
    }
    job = nullptr;  // releases its tensors before somebody waits no more
    {
      const std::lock_guard lock(mutex_);
      running_ = false;
    }
    changed_.notify_all();
  }
}

void Worker::start(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void Worker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !running_; });
  if (wrong_) std::rethrow_exception(wrong_);
}

void Worker::check() {
  const std::lock_guard lock(mutex_);
  if (wrong_) std::rethrow_exception(wrong_);
}

}  // namespace etna::distributed
