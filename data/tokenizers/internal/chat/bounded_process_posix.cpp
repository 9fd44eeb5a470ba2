#include <etna/data/tokenizers/internal/chat/bounded_process.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <exception>
#include <fstream>
#include <new>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::data {
namespace {

/// The first byte of the child's message.
constexpr char kResult = 'r', kError = 'e', kMemory = 'm';

std::uint64_t address_space() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t pages = 0;
  statm >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// @param more added to the hard limit
template <typename Resource>
void limit(Resource resource, std::uint64_t value, std::uint64_t more = 0) {
  const rlimit limits{static_cast<rlim_t>(value), static_cast<rlim_t>(value + more)};
  setrlimit(resource, &limits);
}

void send(int to, char kind, const std::string& text) {
  std::string message(1, kind);
  message += text;
  for (std::size_t at = 0; at < message.size();) {
    const ssize_t sent = write(to, message.data() + at, message.size() - at);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) _exit(1);
    at += static_cast<std::size_t>(sent);
  }
}

[[noreturn]] void child(const std::function<std::string()>& work, int to, const ProcessLimits& limits,
                        std::uint64_t space) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL, SIGPIPE, SIGXCPU}) std::signal(signal, SIG_DFL);
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C in the terminal reaches the child, too; the parent is who ends it
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDOUT_FILENO);
  dup2(nothing, STDERR_FILENO);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_CPU, static_cast<std::uint64_t>(limits.seconds), 1);
  if (space > 0) limit(RLIMIT_AS, space + limits.memory);
  try {
    send(to, kResult, work());
  } catch (const std::bad_alloc&) {
    send(to, kMemory, "");
  } catch (const std::exception& error) {
    send(to, kError, error.what());
  }
  _exit(0);
}

/// Reads the child's message until it exits. @return false if the message is too long or takes too long
bool receive(int from, const ProcessLimits& limits, std::string& message) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(10 * limits.seconds);
  std::array<char, 65536> buffer;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting{from, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    const ssize_t got = read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    message.append(buffer.data(), static_cast<std::size_t>(got));
    if (message.size() > limits.output + 1) return false;
  }
}

}  // namespace

std::string run_bounded(const std::function<std::string()>& work, const std::string& name,
                        const ProcessLimits& limits) {
  const auto refuse = [&](const std::string& what) { throw FormatError(fmt::format("{}: {}", name, what)); };
  const std::uint64_t space = address_space();  // 0 if the system does not report it
  int ends[2];
  if (pipe(ends) != 0) refuse("it cannot be run: no pipe available");
  const pid_t pid = fork();
  if (pid == 0) child(work, ends[1], limits, space);
  close(ends[1]);
  std::string message;
  const bool done = pid > 0 && receive(ends[0], limits, message);
  close(ends[0]);
  if (pid < 0) refuse("it cannot be run: fork failed");
  if (!done) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (message.size() > limits.output + 1)
    refuse(fmt::format("its output exceeds the limit; it has more than {} bytes", limits.output));
  if (!done || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU))
    refuse(fmt::format("it did not finish within {} s", limits.seconds));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || message.empty())
    refuse("it crashed, in a process of its own; something in it is not supported");
  const std::string text = message.substr(1);
  if (message[0] == kMemory) refuse(fmt::format("it needs more than {} MiB of memory", limits.memory >> 20));
  if (message[0] == kError) refuse(text);
  return text;
}

}  // namespace etna::data
