#include <etna/device/internal/pending.h>

namespace etna {
namespace {
std::atomic<void (*)()> run_work{nullptr};
}  // namespace

void detail::run_pending() {
  if (auto run = run_work.load(std::memory_order_acquire)) run();
}

void set_pending_work(void (*run)()) { run_work.store(run, std::memory_order_release); }

}  // namespace etna
