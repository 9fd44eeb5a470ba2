#include <etna/train/interrupt.h>

#include <atomic>
#include <csignal>
#include <iterator>

#include <unistd.h>

#include <etna/device/error.h>

namespace etna::training {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

std::atomic<bool> exists = false;
std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may use it");
struct sigaction before[std::size(kSignals)];

void receive(int signal) {
  if (received.exchange(signal) != 0) ::_exit(128 + signal);
}

}  // namespace

Interrupt::Interrupt() {
  if (exists.exchange(true)) throw Error("Interrupt: there is one already; the program has one main loop");
  received = 0;
  struct sigaction action {};
  action.sa_handler = receive;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // reads and writes of files go on
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &before[i]);
    // A program started with nohup or in the background of a script ignores the signal, and should go on to.
    if (before[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
  exists = false;
}

bool Interrupt::requested() const { return received != 0; }

int Interrupt::exit_code() const {
  const int signal = received;
  return signal == 0 ? 0 : 128 + signal;
}

}  // namespace etna::training
