#pragma once

#include <memory>
#include <string>

namespace etna::os {

int process_id();

/// Lets this thread sleep for microseconds, where the system would wake it 50 later.
void sleep_precisely();

/// This computer's name; empty where it has none.
std::string host_name();

/// "AMD EPYC 9B45"; empty where the system does not say.
std::string processor_name();

/// Opens the null device as standard input, output and error where the process came without them: a file that is opened
/// later would get their number, and the text that belongs there. To be called before anything is opened.
void open_standard_streams();

/// While one lives, Ctrl-C (SIGINT) and SIGTERM call a function instead of ending the process. One that the process
/// ignores (nohup) stays ignored. One object at a time.
class EndSignals {
 public:
  /// @param handler gets the signal's number; may do what a signal handler may
  explicit EndSignals(void (*handler)(int));
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

/// While one lives, Ctrl-C ends a wait for standard input instead of the process. One object at a time. Without signals
/// (Windows) it does nothing.
class InterruptibleRead {
 public:
  InterruptibleRead();
  ~InterruptibleRead();
  InterruptibleRead(const InterruptibleRead&) = delete;
  InterruptibleRead& operator=(const InterruptibleRead&) = delete;

  /// Waits until there is something to read, or the end. @return false after Ctrl-C, whenever it came
  bool wait() const;
  bool interrupted() const;

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

}  // namespace etna::os
