#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <etna/device/profile/profile.h>

/// Records what host and GPUs do, on one time axis.
///     profile::Session session;
///     for (...) { profile::Scope step("step", profile::Category::step); ... }
///     profile::Profile seen = session.stop();
///     std::puts(profile::report(seen).c_str());           // <etna/device/profile/report.h>
///     profile::write_chrome_trace(seen, "trace.json");    // <etna/device/profile/chrome_trace.h>
namespace etna::profile {

/// Where a GPU's timestamps go.
enum class Timing : std::uint8_t {
  automatic,   ///< groups; dispatches on a software rasterizer, which has no front end that runs ahead
  groups,      ///< one for the dispatches between two barriers: under 1 % of a step's time
  dispatches,  ///< a pair around each: exact, but the GPU drains every time, and nothing runs at once
};

struct Options {
  bool gpu = true;  ///< timestamps on the GPUs
  Timing timing = Timing::automatic;
  std::size_t max_spans = std::size_t{1} << 22;  ///< of a thread, and of a GPU; what comes after is counted and dropped
};

/// Begins to record, in the whole process. Waits until the GPUs in use are idle.
/// @throws Error where a profile is being taken already
void start(const Options& options = {});

/// Waits until the GPUs in use are idle and gives what was recorded. Scopes still open are left out. A GPU that was
/// lost meanwhile keeps the times read before.
/// @throws Error where none is being taken
Profile stop();

/// True between start() and stop().
bool taking();

/// Takes a profile while it lives; one that was not stopped is thrown away.
class Session {
 public:
  explicit Session(const Options& options = {}) { start(options); }
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Profile stop();

 private:
  bool stopped_ = false;
};

namespace detail {
/// Who needs scopes to be kept: a profile being taken, and every living KeepLabels. Zero: scopes do nothing.
inline constinit std::atomic<std::uint32_t> active{0};
}  // namespace detail

/// A span of the host's time, from here to the end of the block. Costs one load while nothing is recorded, some 0.1 µs
/// else. Nothing is locked, and memory is taken once in a thousand spans of a thread.
class Scope {
 public:
  /// @param name lives as long as the process, as literals do; null: no span
  explicit Scope(const char* name, Category category = Category::host, std::uint64_t bytes = 0) {
    if (detail::active.load(std::memory_order_relaxed) != 0 && name != nullptr) open(name, category, bytes);
  }
  /// @param name is copied, once for each text
  explicit Scope(const std::string& name, Category category = Category::host, std::uint64_t bytes = 0) {
    if (detail::active.load(std::memory_order_relaxed) != 0) open(kept(name), category, bytes);
  }
  ~Scope() {
    if (name_ != nullptr) close();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  friend struct Labels;
  void open(const char* name, Category category, std::uint64_t bytes);
  void close();
  static const char* kept(std::string_view name);

  const char* name_ = nullptr;
  Category category_ = Category::host;
  std::uint32_t session_ = 0;
  std::uint64_t bytes_ = 0;
  std::int64_t begin_ = 0;
  const Scope* outer_ = nullptr;
};

/// What the scopes around a piece of work call it.
struct Labels {
  const char* node = nullptr;   ///< innermost Category::autograd
  const char* phase = nullptr;  ///< innermost Category::phase
  /// Of the calling thread now; all null where neither a profile is taken nor a KeepLabels lives.
  static Labels now();
};

/// While one lives, Labels::now() tells even where no profile is being taken: for work that is recorded once and
/// profiled later.
class KeepLabels {
 public:
  KeepLabels() { detail::active.fetch_add(1); }
  ~KeepLabels() { detail::active.fetch_sub(1); }
  KeepLabels(const KeepLabels&) = delete;
  KeepLabels& operator=(const KeepLabels&) = delete;
};

/// What traces call the calling thread; at first "main" for the one that loaded the library, "thread N" for others.
void name_thread(std::string name);

namespace detail {
/// Number of the profile being taken, from 1 on; 0 where none is.
std::uint32_t session();
std::size_t max_spans();
std::int64_t now_ns();
/// A number for the calling thread, as HostSpan has it until stop() counts threads anew.
std::uint32_t thread_number();
/// The same text, kept for as long as the process lives. Cheap for texts the thread had lately.
const char* kept(std::string_view text);
}  // namespace detail

}  // namespace etna::profile
