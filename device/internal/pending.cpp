#include <etna/device/internal/pending.h>

namespace etna {
namespace {
std::atomic<void (*)()> run_work{nullptr}, run_work_on_host{nullptr};
}  // namespace

void detail::run_pending() {
  if (auto run = run_work.load(std::memory_order_acquire)) run();
}

void detail::run_pending_on_host() {
  if (auto run = run_work_on_host.load(std::memory_order_acquire)) run();
}

void set_pending_work(void (*run)(), void (*run_on_host)()) {
  run_work.store(run, std::memory_order_release);
  run_work_on_host.store(run_on_host, std::memory_order_release);
}

}  // namespace etna
