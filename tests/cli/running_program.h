#pragma once

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include <gtest/gtest.h>

/// etna while it runs: what is written to it, and what it writes.
namespace etna {

/// A running program with pipes to its input and from its output.
class Running {
 public:
  explicit Running(const std::string& arguments) {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (const int end : {in[0], in[1], out[0], out[1]}) close(end);
      signal(SIGINT, SIG_DFL);  // a test in the background may have inherited that it is ignored
      const std::string command = "exec " ETNA_PROGRAM " " + arguments;
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    out_ = out[0];
  }
  ~Running() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    close(out_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void write(const std::string& text) const {
    EXPECT_EQ(::write(in_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void interrupt() const { kill(child_, SIGINT); }
  pid_t process() const { return child_; }

  /// Reads what is written until `bytes` are there, or `text` is. @return false where nothing comes for two minutes
  bool wait_for(std::size_t bytes, const std::string& text = "") {
    const std::size_t begin = output_.size();
    while (output_.size() < begin + bytes || (!text.empty() && output_.find(text, begin) == std::string::npos)) {
      pollfd end{out_, POLLIN, 0};
      if (poll(&end, 1, 120'000) <= 0) return false;
      char buffer[4096];
      const ssize_t n = ::read(out_, buffer, sizeof buffer);
      if (n <= 0) return false;
      output_.append(buffer, static_cast<std::size_t>(n));
    }
    return true;
  }
  /// Closes its input. @return the exit code, or minus the signal that ended it
  int end() {
    close(in_);
    while (wait_for(1)) {}
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = 0;
    close(out_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  const std::string& output() const { return output_; }

 private:
  pid_t child_ = 0;
  int in_ = -1, out_ = -1;
  std::string output_;
};

/// etna chat on a terminal of its own.
class OnTerminal {
 public:
  explicit OnTerminal(const std::string& arguments) {
    child_ = ::forkpty(&end_, nullptr, nullptr, nullptr);
    if (child_ != 0) return;
    const std::string command = "TERM=xterm LC_ALL=C.UTF-8 exec " ETNA_PROGRAM " " + arguments;
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  ~OnTerminal() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    close(end_);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  void type(const std::string& keys) const {
    EXPECT_EQ(::write(end_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  /// Reads until `text` appears after what was read before.
  testing::AssertionResult shows(const std::string& text) {
    char buffer[4096];
    std::size_t at = 0;
    while ((at = output_.find(text)) == std::string::npos) {
      pollfd end{end_, POLLIN, 0};
      const ssize_t n = poll(&end, 1, 120'000) > 0 ? ::read(end_, buffer, sizeof buffer) : 0;
      if (n <= 0) return testing::AssertionFailure() << "no '" << text << "' in: " << output_;
      output_.append(buffer, static_cast<std::size_t>(n));
    }
    output_.erase(0, at + text.size());
    return testing::AssertionSuccess();
  }
  int exit_code() {
    int status = 0;
    char buffer[4096];
    while (::read(end_, buffer, sizeof buffer) > 0) {}
    waitpid(child_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t child_ = 0;
  int end_ = -1;
  std::string output_;  ///< read and not looked at yet
};

}  // namespace etna
