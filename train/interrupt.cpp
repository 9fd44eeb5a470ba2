#include <etna/train/progress.h>

#include <atomic>
#include <cstdlib>
#include <optional>

#include <etna/device/error.h>
#include <etna/device/internal/os/process.h>

namespace etna::training {
namespace {

std::atomic<bool> exists = false;
std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may use it");
std::optional<os::EndSignals> signals;

void receive(int signal) {
  if (received.exchange(signal) != 0) std::_Exit(128 + signal);
}

}  // namespace

Interrupt::Interrupt() {
  if (exists.exchange(true)) throw Error("Interrupt: there is one already; the program has one main loop");
  received = 0;
  signals.emplace(receive);
}

Interrupt::~Interrupt() {
  signals.reset();
  exists = false;
}

bool Interrupt::requested() const { return received != 0; }

int Interrupt::exit_code() const {
  const int signal = received;
  return signal == 0 ? 0 : 128 + signal;
}

}  // namespace etna::training
