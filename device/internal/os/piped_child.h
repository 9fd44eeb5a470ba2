#pragma once

#include <memory>
#include <string>
#include <vector>

#include <etna/device/internal/os/child.h>

namespace etna::os {

/// A program that runs beside this one, which writes its input and reads its output.
class PipedChild {
 public:
  /// As run_child(), in a thread of its own. @param options their input and output are set here
  PipedChild(std::vector<std::string> command, ChildOptions options);
  /// Closes its input, reads the rest of its output and waits.
  ~PipedChild();
  PipedChild(const PipedChild&) = delete;
  PipedChild& operator=(const PipedChild&) = delete;

  /// @return false where it does not read any more
  bool write(const std::string& text);
  void close_input();
  /// Waits for output. Empty at its end.
  std::string read();
  /// After read() has given the end. @return how the child ended
  ChildEnd wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace etna::os
