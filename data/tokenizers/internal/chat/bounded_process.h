#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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

/// Runs work on requests, one after the other, in one forked copy of this process that is kept, so that a request costs
/// neither a fork nor the preparation that the work keeps between requests. A request that crashes or exceeds a limit
/// ends the copy; the next one starts another. The copy has none of this process's files and sockets.
/// Fork early: a copy of a process with many threads inherits locks that a thread holds at that moment, and keeps the
/// memory that this process changes later. Safe to use from several threads; each request waits for those before it.
class BoundedWorker {
 public:
  using Work = std::function<std::string(const std::string& request)>;

  /// Does not fork yet; start() and run() do.
  /// @param work as in run_bounded(), called for each request; limits.seconds hold for each request
  BoundedWorker(Work work, std::string name, const ProcessLimits& limits = {});
  ~BoundedWorker();
  BoundedWorker(const BoundedWorker&) = delete;
  BoundedWorker& operator=(const BoundedWorker&) = delete;

  /// Forks unless a copy runs. @throws FormatError where that fails
  void start();
  /// The result of one request. @throws FormatError as run_bounded() does
  std::string run(const std::string& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace etna::data
