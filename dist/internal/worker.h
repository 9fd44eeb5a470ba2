#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace etna::distributed {

/// A thread that runs jobs in order. After one that throws, it runs no more.
class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start(std::function<void()> job);
  /// @throws what a job threw
  void wait();
  /// The same without waiting for jobs.
  void check();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool running_ = false, ended_ = false;
  std::exception_ptr wrong_;
  std::thread thread_;
};

}  // namespace etna::distributed
