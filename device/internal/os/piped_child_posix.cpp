#include <array>
#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <etna/device/internal/os/piped_child.h>

namespace etna::os {

#if defined(__EMSCRIPTEN__)

struct PipedChild::State {
  ChildEnd end;
};

PipedChild::PipedChild(std::vector<std::string> command, ChildOptions options) : state_(std::make_unique<State>()) {
  state_->end = run_child(command, options);
}
PipedChild::~PipedChild() = default;
bool PipedChild::write(const std::string&) { return false; }
void PipedChild::close_input() {}
std::string PipedChild::read() { return {}; }
ChildEnd PipedChild::wait() { return state_->end; }

#else

struct PipedChild::State {
  int in = -1, out = -1;
  ChildEnd end;
  std::thread thread;
};

PipedChild::PipedChild(std::vector<std::string> command, ChildOptions options) : state_(std::make_unique<State>()) {
  std::array<int, 2> in{-1, -1}, out{-1, -1};
  if (::pipe(in.data()) != 0 || ::pipe(out.data()) != 0) {
    for (const int one : {in[0], in[1]})
      if (one >= 0) ::close(one);
    state_->end.error = "it has no pipes to talk through: too many files are open";
    return;
  }
  for (const int own : {in[1], out[0]}) ::fcntl(own, F_SETFD, FD_CLOEXEC);
  state_->in = in[1];
  state_->out = out[0];
  options.input = in[0];
  options.output = out[1];
  state_->thread = std::thread([state = state_.get(), command = std::move(command), options = std::move(options)] {
    state->end = run_child(command, options);
  });
}

PipedChild::~PipedChild() {
  close_input();
  while (!read().empty()) {}
  wait();
  if (state_->out >= 0) ::close(state_->out);
}

bool PipedChild::write(const std::string& text) {
  // Where nobody reads, write() says so; the signal would end this process.
  sigset_t broken, before;
  ::sigemptyset(&broken);
  ::sigaddset(&broken, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken, &before);
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t written = ::write(state_->in, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
  }
  if (at < text.size()) {
    sigset_t pending;
    int taken = 0;
    if (::sigpending(&pending) == 0 && ::sigismember(&pending, SIGPIPE) == 1) ::sigwait(&broken, &taken);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return at == text.size();
}

void PipedChild::close_input() {
  if (state_->in >= 0) ::close(std::exchange(state_->in, -1));
}

std::string PipedChild::read() {
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = state_->out < 0 ? 0 : ::read(state_->out, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
  }
}

ChildEnd PipedChild::wait() {
  if (state_->thread.joinable()) state_->thread.join();
  return state_->end;
}

#endif

}  // namespace etna::os
