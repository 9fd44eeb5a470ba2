#include <etna/data/tokenizers/internal/chat/bounded_process.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <fstream>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::data {
namespace {

/// The first byte of the child's message.
constexpr char kResult = 'r', kError = 'e', kMemory = 'm';
#ifdef MSG_NOSIGNAL
constexpr int kNoSignal = MSG_NOSIGNAL;
#else
constexpr int kNoSignal = 0;
#endif

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

void write_all(int to, const std::string& message) {
  for (std::size_t at = 0; at < message.size();) {
    const ssize_t sent = write(to, message.data() + at, message.size() - at);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) _exit(1);
    at += static_cast<std::size_t>(sent);
  }
}

void send_answer(int to, char kind, const std::string& text) { write_all(to, std::string(1, kind) + text); }

/// Closes all files but the standard ones and two, so that sockets of this process close when it closes them.
void close_others(int keep, int keep_too) {
  const long most = std::min(sysconf(_SC_OPEN_MAX), 65536L);
  const int low = std::min(keep, keep_too), high = std::max(keep, keep_too);
#ifdef SYS_close_range
  const auto close_from = [](int first, unsigned last) {
    return first > static_cast<int>(last) || syscall(SYS_close_range, static_cast<unsigned>(first), last, 0u) == 0;
  };
  if (close_from(3, static_cast<unsigned>(low) - 1) && close_from(low + 1, static_cast<unsigned>(high) - 1) &&
      close_from(high + 1, 0x7fffffffu))
    return;
#endif
  for (int file = 3; file < most; ++file)
    if (file != low && file != high) close(file);
}

/// Makes this forked process one that can do no harm.
void confine(const ProcessLimits& limits, std::uint64_t space, int keep, int keep_too) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL, SIGPIPE, SIGXCPU, SIGTERM})
    std::signal(signal, SIG_DFL);
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C in the terminal reaches the child, too; the parent is who ends it
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(nothing, STDERR_FILENO);
  close_others(keep, keep_too);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  if (space > 0) limit(RLIMIT_AS, space + limits.memory);
}

/// The kind and the text of the message that answers a request.
std::pair<char, std::string> answer_of(const std::function<std::string()>& work) {
  try {
    return {kResult, work()};
  } catch (const std::bad_alloc&) {
    return {kMemory, ""};
  } catch (const std::exception& error) {
    return {kError, error.what()};
  }
}

[[noreturn]] void child(const std::function<std::string()>& work, int to, const ProcessLimits& limits,
                        std::uint64_t space) {
  confine(limits, space, to, to);
  limit(RLIMIT_CPU, static_cast<std::uint64_t>(limits.seconds), 1);
  const auto [kind, text] = answer_of(work);
  send_answer(to, kind, text);
  _exit(0);
}

using Clock = std::chrono::steady_clock;

/// Reads what is there. @return bytes added; 0 at the end; -1 where it takes too long or fails
ssize_t read_some(int from, Clock::time_point end, std::string& message) {
  std::array<char, 65536> buffer;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return -1;
    pollfd waiting{from, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 1 << 30)));
    if (ready < 0 && errno != EINTR) return -1;
    if (ready <= 0) continue;
    const ssize_t got = read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) message.append(buffer.data(), static_cast<std::size_t>(got));
    return got;
  }
}

/// Reads the child's message until it exits. @return false if the message is too long or takes too long
bool receive(int from, const ProcessLimits& limits, std::string& message) {
  const auto end = Clock::now() + std::chrono::seconds(10 * limits.seconds);
  for (;;) {
    const ssize_t got = read_some(from, end, message);
    if (got <= 0) return got == 0;
    if (message.size() > limits.output + 1) return false;
  }
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

[[noreturn]] void refuse_run(const std::string& name, const std::string& what) {
  throw FormatError(fmt::format("{}: {}", name, what));
}

/// What the child's message or its end says. @param done whether it ended by itself @return the result's text
std::string judge(const std::string& message, bool done, int status, const std::string& name,
                  const ProcessLimits& limits) {
  if (message.size() > limits.output + 1)
    refuse_run(name, fmt::format("its output exceeds the limit; it has more than {} bytes", limits.output));
  if (!done || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU))
    refuse_run(name, fmt::format("it did not finish within {} s", limits.seconds));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || message.empty())
    refuse_run(name, "it crashed, in a process of its own; something in it is not supported");
  const std::string text = message.substr(1);
  if (message[0] == kMemory) refuse_run(name, fmt::format("it needs more than {} MiB of memory", limits.memory >> 20));
  if (message[0] == kError) refuse_run(name, text);
  return text;
}

}  // namespace

std::string run_bounded(const std::function<std::string()>& work, const std::string& name,
                        const ProcessLimits& limits) {
  const std::uint64_t space = address_space();  // 0 if the system does not report it
  int ends[2];
  if (pipe(ends) != 0) refuse_run(name, "it cannot be run: no pipe available");
  const pid_t pid = fork();
  if (pid == 0) child(work, ends[1], limits, space);
  close(ends[1]);
  std::string message;
  const bool done = pid > 0 && receive(ends[0], limits, message);
  close(ends[0]);
  if (pid < 0) refuse_run(name, "it cannot be run: fork failed");
  if (!done) kill(pid, SIGKILL);
  return judge(message, done, wait_for(pid), name, limits);
}

// A message between the two is its size in 8 bytes, then its bytes; an answer's first byte is its kind.

namespace {

constexpr std::size_t kSizeBytes = sizeof(std::uint64_t);

std::string framed(const std::string& text) {
  const std::uint64_t size = text.size();
  std::string message(reinterpret_cast<const char*>(&size), kSizeBytes);
  return message += text;
}

bool read_exactly(int from, char* to, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t got = read(from, to + at, size - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += static_cast<std::size_t>(got);
  }
  return true;
}

/// Gives this process so many more seconds of CPU time.
void allow_seconds(int seconds) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  rlimit limits{};
  getrlimit(RLIMIT_CPU, &limits);
  limits.rlim_cur = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1 + seconds);
  setrlimit(RLIMIT_CPU, &limits);
}

[[noreturn]] void serve_requests(const BoundedWorker::Work& work, int from, int to, const ProcessLimits& limits,
                                 std::uint64_t space) {
  confine(limits, space, from, to);
  for (;;) {
    std::uint64_t size = 0;
    if (!read_exactly(from, reinterpret_cast<char*>(&size), kSizeBytes)) _exit(0);
    allow_seconds(limits.seconds);
    const auto [kind, text] = answer_of([&] {
      std::string request(size, '\0');
      if (!read_exactly(from, request.data(), size)) _exit(0);
      return work(request);
    });
    std::string message(1, kind);
    message += text;
    const std::string bytes = framed(message);
    write_all(to, bytes);
    if (kind == kMemory) _exit(0);
  }
}

/// Writes a request and reads its answer. @return false if the answer is too long or takes too long
bool exchange(int to, int from, const std::string& request, const ProcessLimits& limits, std::string& answer) {
  const auto end = Clock::now() + std::chrono::seconds(10 * limits.seconds);
  std::size_t sent = 0;
  std::string bytes;
  for (;;) {
    if (sent < request.size()) {
      pollfd waiting{to, POLLOUT, 0};
      if (Clock::now() >= end) return false;
      if (poll(&waiting, 1, 100) <= 0) continue;
      const ssize_t wrote = ::send(to, request.data() + sent, request.size() - sent, kNoSignal);
      if (wrote < 0 && errno != EINTR && errno != EAGAIN) return true;  // it has ended: judge() says how
      if (wrote > 0) sent += static_cast<std::size_t>(wrote);
      continue;
    }
    const ssize_t got = read_some(from, end, bytes);
    if (got < 0) return errno == ECONNRESET;
    std::uint64_t size = 0;
    if (bytes.size() >= kSizeBytes) std::memcpy(&size, bytes.data(), kSizeBytes);
    if (size > limits.output + 1) {
      answer.assign(limits.output + 2, ' ');
      return false;
    }
    const bool whole = bytes.size() >= kSizeBytes && bytes.size() - kSizeBytes >= size;
    if (whole) answer = bytes.substr(kSizeBytes, size);
    if (whole || got == 0) return true;
  }
}

}  // namespace

struct BoundedWorker::State {
  Work work;
  std::string name;
  ProcessLimits limits;
  std::mutex mutex;
  pid_t pid = 0, owner = 0;
  int to = -1, from = -1;

  void start() {
    if (owner != getpid()) pid = 0;  // the copy belongs to the process that this one was forked from
    if (pid > 0) return;
    owner = getpid();
    const std::uint64_t space = address_space();
    // A socket: writing to a process that has ended is an error there, and no signal.
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) refuse_run(name, "it cannot be run: no socket available");
    const pid_t forked = fork();
    if (forked == 0) serve_requests(work, ends[1], ends[1], limits, space);
    close(ends[1]);
    if (forked < 0) {
      close(ends[0]);
      refuse_run(name, "it cannot be run: fork failed");
    }
    pid = forked;
    to = from = ends[0];
    fcntl(to, F_SETFD, FD_CLOEXEC);
    fcntl(to, F_SETFL, fcntl(to, F_GETFL) | O_NONBLOCK);
  }
  /// @return the exit status of the copy
  int end(bool now) {
    if (pid <= 0 || owner != getpid()) return 0;
    if (now) kill(pid, SIGKILL);
    close(to);
    const int status = wait_for(pid);
    pid = 0;
    return status;
  }
};

BoundedWorker::BoundedWorker(Work work, std::string name, const ProcessLimits& limits)
    : state_(std::make_unique<State>()) {
  state_->work = std::move(work);
  state_->name = std::move(name);
  state_->limits = limits;
}

BoundedWorker::~BoundedWorker() { state_->end(true); }

void BoundedWorker::start() {
  const std::lock_guard lock(state_->mutex);
  state_->start();
}

std::string BoundedWorker::run(const std::string& request) {
  const std::lock_guard lock(state_->mutex);
  state_->start();
  std::string answer;
  const bool done = exchange(state_->to, state_->from, framed(request), state_->limits, answer);
  int status = 0;
  if (!done || answer.empty() || answer[0] == kMemory) status = state_->end(!done);
  return judge(answer, done, status, state_->name, state_->limits);
}

}  // namespace etna::data
