#pragma once

namespace etna::training {

/// Turns Ctrl-C (SIGINT) and SIGTERM into a request that the loop reads after a step:
///     training::Interrupt interrupt;
///     while (step < total && !interrupt.requested()) …
///     if (interrupt.requested()) { save(); return interrupt.exit_code(); }
/// A second signal ends the process at once, with the same exit code. The destructor restores what the signals did
/// before. One object at a time. @throws Error for a second one
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;
  /// 128 + the signal's number, as a shell reports it: 130 for Ctrl-C; 0 before a signal.
  int exit_code() const;
};

}  // namespace etna::training
