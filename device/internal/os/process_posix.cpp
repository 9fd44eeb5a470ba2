#include <etna/device/internal/os/process.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>

#include <fcntl.h>
#include <poll.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <unistd.h>
#if defined(__linux__) && defined(__x86_64__)
#endif

namespace etna::os {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};

volatile std::sig_atomic_t read_interrupted = 0;
/// Written to by the handler, so that a wait that begins after Ctrl-C ends, and whichever thread gets the signal.
volatile std::sig_atomic_t interruption_end = -1;

}  // namespace

int process_id() { return ::getpid(); }

void sleep_precisely() {
#ifdef __linux__
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    if (line.starts_with("model name") || line.starts_with("Model")) return line.substr(colon + 2);
  }
  return "";
}

void open_standard_streams() {
  // open() gives the lowest number that is free.
  int number = 0;
  do {
    number = ::open("/dev/null", O_RDWR);
  } while (number >= 0 && number <= 2);
  if (number > 2) ::close(number);
}

struct EndSignals::Before {
  std::array<struct sigaction, kSignals.size()> actions{};
};

EndSignals::EndSignals(void (*handler)(int)) : before_(std::make_unique<Before>()) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // reads and writes of files go on
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_->actions[i]);
    if (before_->actions[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

EndSignals::~EndSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_->actions[i], nullptr);
}

struct InterruptibleRead::Before {
  struct sigaction action {};
  std::array<int, 2> pipe{-1, -1};
};

InterruptibleRead::InterruptibleRead() : before_(std::make_unique<Before>()) {
  if (::pipe(before_->pipe.data()) != 0) before_->pipe = {-1, -1};
  for (const int end : before_->pipe)
    if (end >= 0) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  interruption_end = before_->pipe[1];
  read_interrupted = 0;
  struct sigaction action {};
  action.sa_handler = [](int) {
    read_interrupted = 1;
    const int error = errno;
    [[maybe_unused]] const auto written = ::write(interruption_end, "", 1);
    errno = error;
  };
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &before_->action);  // without SA_RESTART: a read that has begun returns
}

InterruptibleRead::~InterruptibleRead() {
  ::sigaction(SIGINT, &before_->action, nullptr);
  interruption_end = -1;
  for (const int end : before_->pipe)
    if (end >= 0) ::close(end);
}

bool InterruptibleRead::wait() const {
  std::array<pollfd, 2> ends{{{STDIN_FILENO, POLLIN, 0}, {before_->pipe[0], POLLIN, 0}}};
  while (!interrupted() && ::poll(ends.data(), ends.size(), -1) < 0 && errno == EINTR) {}
  return !interrupted();
}

bool InterruptibleRead::interrupted() const { return read_interrupted != 0; }

}  // namespace etna::os
