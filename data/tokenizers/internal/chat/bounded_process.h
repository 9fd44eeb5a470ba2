#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

/// Programs of strangers, such as chat templates, at work in a process of their own. Internal.
namespace etna::data {

struct ProcessLimits {
  int seconds = 10;                  ///< of a processor, or ten times as many by the clock, until it is ended
  std::uint64_t memory = 512 << 20;  ///< bytes beside those that this process has
  std::size_t output = 4 << 20;      ///< bytes of the result
};

/// Runs work that may crash, never end or fill the memory in a copy of this process, so that none of it happens here.
/// The work sees all that is in memory now and changes nothing of it; it must not use devices or threads.
/// @param work returns the result; an exception it throws is thrown here as a FormatError with the same words
/// @param name for errors @throws FormatError also for work that goes beyond a limit or ends in another way
std::string run_bounded(const std::function<std::string()>& work, const std::string& name,
                        const ProcessLimits& limits = {});

}  // namespace etna::data
