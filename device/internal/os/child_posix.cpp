#include <etna/device/internal/os/child.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#include <sys/prctl.h>
#endif

extern char** environ;

namespace etna::os {
namespace {

#if !defined(__EMSCRIPTEN__)
// Any thread may run a handler, also while another one starts the child.
std::atomic<pid_t> the_child = 0;
std::atomic<int> end_to_send = 0, interrupt_to_send = 0;  ///< signals; 0: none, or sent
std::atomic<bool> told_to_end = false, told_to_interrupt = false;
static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

/// Sends a signal that waits, once, if there is a child.
void send(std::atomic<int>& waiting) {
  const pid_t child = the_child;
  if (child <= 0) return;
  if (const int signal = waiting.exchange(0)) ::kill(child, signal);
}

/// Numbers of the processes that entered themselves, and a 0 for each time that they were asked to end, a line each, in
/// the order in which that happened: who finds a 0 behind itself was told, who finds one before itself tells itself.
constexpr const char* kEntriesVariable = "ETNA_RANK_ENTRIES";
std::atomic<int> entries = -1;  ///< descriptor of the file; -1: none

/// Calls take(number) for each line, until it says false. Async-signal-safe, as all that a handler calls.
template <class Take>
void read_entries(int file, const Take& take) {
  pid_t number = 0;
  char character = 0;
  for (off_t at = 0; ::pread(file, &character, 1, at) == 1; ++at) {
    if (character != '\n') {
      number = number * 10 + (character - '0');
    } else {
      if (!take(number)) return;
      number = 0;
    }
  }
}

/// @return whether anybody is there
bool ask_entered(int file) {
  (void)!::write(file, "0\n", 2);
  bool any = false;
  read_entries(file, [&](pid_t process) {
    any = any || process > 0;
    if (process > 0) ::kill(process, SIGUSR1);
    return true;
  });
  return any;
}

/// @return whether somebody was asked to end before
bool enter(const char* path) {
  const int file = ::open(path, O_RDWR | O_APPEND | O_CLOEXEC);
  if (file < 0) return false;
  bool asked = false;
  const std::string line = std::to_string(::getpid()) + "\n";
  if (::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size())) {
    read_entries(file, [&](pid_t process) {
      asked = asked || process == 0;
      return process != ::getpid();
    });
  }
  ::close(file);
  return asked;
}

void hand_on(int signal) {
  const int error = errno;
  told_to_end = true;
  // Who could not enter, because the disk is full, may hear it from mpirun.
  if (const int file = entries; file < 0 || !ask_entered(file)) {
    end_to_send = file < 0 ? signal : SIGUSR1;
    send(end_to_send);
  }
  errno = error;
}

void hand_on_interrupt(int) {
  const int error = errno;
  told_to_interrupt = true;
  interrupt_to_send = SIGINT;
  send(interrupt_to_send);
  errno = error;
}

/// A new file that is empty and appended to. @return its descriptor; -1: none
int make_entries(std::string& path) {
  std::error_code error;
  path = (std::filesystem::temp_directory_path(error) / "etna-ranks-XXXXXX").string();
  const int file = ::mkstemp(path.data());
  if (file >= 0) ::fcntl(file, F_SETFL, O_APPEND), ::fcntl(file, F_SETFD, FD_CLOEXEC);
  return file;
}

/// In the child: it does not outlive this process, and signals of the terminal go to this one alone.
void stand_apart([[maybe_unused]] pid_t parent) {
  ::setpgid(0, 0);
#if defined(__linux__)
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
#endif
}
#endif

}  // namespace

ChildEnd run_child(const std::vector<std::string>& command, const ChildOptions& options) {
  ChildEnd end;
  if (command.empty()) return end.error = "no program was named", end;
#if defined(__EMSCRIPTEN__)
  (void)options;
  end.error = "a page starts no programs";
#else
  std::vector<char*> arguments;
  for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  int wrong[2] = {-1, -1};  // carries why exec failed
  std::string entries_path;
  const int file = options.asks_entered ? make_entries(entries_path) : -1;
  const auto close_entries = [&] {
    entries = -1;
    if (file >= 0) ::close(file), ::unlink(entries_path.c_str());
  };
  if (::pipe(wrong) != 0) {
    end.error = std::strerror(errno);
    return close_entries(), end;
  }
  struct sigaction handler {};
  struct sigaction before[3];
  handler.sa_handler = hand_on;
  told_to_end = told_to_interrupt = false;
  end_to_send = interrupt_to_send = 0;
  entries = file;
  ::sigaction(SIGINT, &handler, &before[0]);
  ::sigaction(SIGTERM, &handler, &before[1]);
  handler.sa_handler = hand_on_interrupt;
  ::sigaction(SIGUSR1, options.enters ? &handler : nullptr, &before[2]);
  if (const char* path = options.enters ? std::getenv(kEntriesVariable) : nullptr; path != nullptr && enter(path))
    hand_on_interrupt(SIGUSR1);
  const auto restore = [&] {
    ::sigaction(SIGINT, &before[0], nullptr);
    ::sigaction(SIGTERM, &before[1], nullptr);
    ::sigaction(SIGUSR1, &before[2], nullptr);
  };
  // Signals that come to the child before it has its own handlers wait until then.
  sigset_t signals, mask;
  sigemptyset(&signals);  // may be a macro
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, &mask);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) {
    restore();
    if (options.asks_entered) stand_apart(parent);
    if (file >= 0) ::setenv(kEntriesVariable, entries_path.c_str(), 1);
    if (options.enters) {
      ::unsetenv(kEntriesVariable);
      ::signal(SIGUSR1, SIG_IGN);
      ::signal(SIGINT, SIG_DFL);  // a background job of a script ignores it, and so would what it starts
    }
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    ::close(wrong[0]);
    if (options.input >= 0) ::dup2(options.input, STDIN_FILENO), ::close(options.input);
    if (options.output >= 0) ::dup2(options.output, STDOUT_FILENO), ::close(options.output);
    for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
    // Closed by a successful exec.
    const int report = ::dup(wrong[1]);
    ::close(wrong[1]);
    ::fcntl(report, F_SETFD, FD_CLOEXEC);
    ::execvp(arguments[0], arguments.data());
    const int code = errno;
    (void)!::write(report, &code, sizeof code);
    ::_exit(127);
  }
  if (child < 0) {
    end.error = std::strerror(errno);
  } else {
    the_child = child;
    for (std::atomic<int>* waiting : {&end_to_send, &interrupt_to_send}) send(*waiting);
  }
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  ::close(wrong[1]);
  for (const int given : {options.input, options.output})
    if (given >= 0) ::close(given);
  if (child > 0) {
    end.process = child;
    int code = 0;
    ssize_t read = 0;
    while ((read = ::read(wrong[0], &code, sizeof code)) < 0 && errno == EINTR) {}
    if (read == static_cast<ssize_t>(sizeof code)) end.error = std::strerror(code);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    the_child = 0;
    if (WIFSIGNALED(status))
      end.signal = WTERMSIG(status);
    else
      end.exit_code = WEXITSTATUS(status);
    end.asked = told_to_end || (told_to_interrupt && end.signal == SIGINT);
  }
  ::close(wrong[0]);
  restore();
  close_entries();
#endif
  return end;
}

std::vector<std::string> variable_names() {
  std::vector<std::string> names;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string variable = *at;
    names.push_back(variable.substr(0, variable.find('=')));
  }
  return names;
}

std::string signal_words(int signal) { return ::strsignal(signal); }

void use_share_of_cores([[maybe_unused]] int share, [[maybe_unused]] int shares) {
#if defined(__linux__)
  cpu_set_t allowed, mine;
  CPU_ZERO(&mine);
  if (shares < 1 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  const int cores = CPU_COUNT(&allowed);
  const int first = cores >= shares ? share * cores / shares : share % cores;
  const int last = cores >= shares ? (share + 1) * cores / shares : first + 1;
  for (int core = 0, at = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    if (at >= first && at < last) CPU_SET(core, &mine);
    ++at;
  }
  ::sched_setaffinity(0, sizeof mine, &mine);
#endif
}

bool is_root() { return ::geteuid() == 0; }

}  // namespace etna::os
