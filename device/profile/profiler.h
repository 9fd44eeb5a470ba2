#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <etna/device/owned.h>
#include <etna/device/profile/profile.h>

/// Measures what host and GPUs do, on one time axis.
///     profile::Session session;
///     for (...) { profile::Scope step("step", profile::Category::step); ... }
///     profile::Profile seen = session.stop();
///     std::puts(profile::report(seen).c_str());
///     profile::write_trace(seen, "trace.json");
namespace etna::profile {

/// How GPU timestamps are placed.
enum class Timing : std::uint8_t {
  automatic,   ///< groups; on a software rasterizer dispatches, since it has no front end that runs ahead
  groups,      ///< one per group of dispatches between two barriers: under 1 % of a step's time
  dispatches,  ///< a pair around each dispatch: exact, but the GPU drains every time, and nothing overlaps
};

struct Options {
  bool gpu = true;  ///< timestamps on the GPUs
  Timing timing = Timing::automatic;
  std::size_t max_spans = std::size_t{1} << 22;  ///< per thread and per GPU; later spans are counted and dropped
};

/// Starts measuring in the whole process. Waits until the GPUs in use are idle.
/// @throws Error if a profile is already being taken
void start(const Options& options = {});

/// Waits until the GPUs in use are idle and returns what was measured, without scopes that are still open. A GPU lost
/// in the meantime keeps the times read before.
/// @throws Error if no profile is being taken
Profile stop();

/// True between start() and stop().
bool taking();

/// Takes a profile while it lives; discards it unless stop() is called.
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
/// The number of users that need scopes: a profile being taken, and every living KeepLabels. At zero, scopes do
/// nothing.
inline constinit std::atomic<std::uint32_t> active{0};
}  // namespace detail

/// A span of host time, from here to the end of the block. Costs one load while no profile is taken, otherwise about
/// 0.1 µs. It takes no lock, and allocates once per thousand spans of a thread.
class Scope {
 public:
  /// @param name must live as long as the process, as literals do; null: no span
  explicit Scope(const char* name, Category category = Category::host, std::uint64_t bytes = 0) {
    if (detail::active.load(std::memory_order_relaxed) != 0 && name != nullptr) open(name, category, bytes);
  }
  /// @param name is copied, once per distinct text
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

/// Names that the enclosing scopes give to a piece of work.
struct Labels {
  const char* node = nullptr;   ///< innermost Category::autograd
  const char* phase = nullptr;  ///< innermost Category::phase
  /// Labels of the calling thread now; all null unless a profile is being taken or a KeepLabels lives.
  static Labels now();
};

/// While one lives, Labels::now() of this thread returns these: for work that is done later than it was asked for.
class WithLabels {
 public:
  explicit WithLabels(const Labels& labels);
  ~WithLabels();
  WithLabels(const WithLabels&) = delete;
  WithLabels& operator=(const WithLabels&) = delete;

 private:
  const Labels* before_;
};

/// While one lives, Labels::now() works even where no profile is being taken: for work that is captured once and
/// profiled later.
class KeepLabels {
 public:
  KeepLabels() { detail::active.fetch_add(1); }
  ~KeepLabels() { detail::active.fetch_sub(1); }
  KeepLabels(const KeepLabels&) = delete;
  KeepLabels& operator=(const KeepLabels&) = delete;
};

/// The calling thread's name in traces. Default: "main" for the thread that loaded the library, "thread N" for others.
void name_thread(std::string name);

namespace detail {
/// Number of the profile being taken, counted from 1; 0 where none is.
std::uint32_t session();
std::size_t max_spans();
std::int64_t now_ns();
/// The calling thread's number, as in HostSpan until stop() renumbers threads.
std::uint32_t thread_number();
/// A copy of the text that lives as long as the process. Cheap for texts that the thread used recently.
const char* kept(std::string_view text);
}  // namespace detail

/// Profiles some steps of a training loop, after warm-up.
///     profile::StepProfiler profiler({.skip = 5, .steps = 20});
///     for (...) { profile::Scope step = profiler.step(); ... }
///     if (auto profile = profiler.take()) std::puts(profile::report(*profile).c_str());
class StepProfiler {
 public:
  struct Options {
    std::int64_t skip = 5;    ///< warm-up steps: they create pipelines, allocate memory and capture
    std::int64_t steps = 20;  ///< number of steps to profile; 0: none
    profile::Options what = {};
  };
  explicit StepProfiler(Options options);
  /// Discards a profile that was not taken.
  ~StepProfiler();

  /// Call at the head of each step and keep the result until the step's end. Starts and stops the profile when its turn
  /// comes.
  Scope step();
  /// After the loop: the profile; empty if the loop ended too early.
  std::optional<Profile> take();

 private:
  void end();

  Options options_;
  std::int64_t step_ = 0;
  Owned<Session> session_;
  Owned<Profile> profile_;
};

}  // namespace etna::profile
