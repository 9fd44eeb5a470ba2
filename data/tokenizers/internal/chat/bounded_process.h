#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

/// Runs untrusted programs, such as chat templates, in a process of their own. Internal.
namespace etna::data {

struct ProcessLimits {
  int seconds = 10;                  ///< of CPU time; ten times as many of wall-clock time
  std::uint64_t memory = 512 << 20;  ///< bytes in addition to what this process has
  std::size_t output = 4 << 20;      ///< bytes of the result
};

/// Runs work that may crash, hang or exhaust memory in a forked copy of this process, so that this process is safe.
/// The work sees all current memory but cannot change it; it must not use devices or threads.
/// @param work returns the result; an exception it throws is rethrown here as a FormatError with the same text
/// @param name for errors @throws FormatError also if the work exceeds a limit or dies
std::string run_bounded(const std::function<std::string()>& work, const std::string& name,
                        const ProcessLimits& limits = {});

}  // namespace etna::data
