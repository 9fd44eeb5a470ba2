#pragma once

#include <memory>
#include <string>

namespace etna::os {

int process_id();

/// This computer's name; empty where it has none.
std::string host_name();

/// "AMD EPYC 9B45"; empty where the system does not say.
std::string processor_name();

/// Asks for the registers of AMX, which systems give only to processes that ask; false where this one gives none.
bool request_tile_registers();

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

}  // namespace etna::os
