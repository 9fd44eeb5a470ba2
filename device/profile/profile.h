#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/memory.h>

/// The profiler's results as plain values, and what is made of them: a summary, a report, traces, a picture.
/// <etna/device/profile/profiler.h> takes them.
namespace etna::profile {

/// The kind of a host span.
enum class Category : std::uint8_t {
  step,      ///< one training step; the report divides by their number
  phase,     ///< backward, clip, optimizer: ops inside are counted separately. Outside any phase is the forward pass
  op,        ///< an op, from its call to its return
  autograd,  ///< a node of the tape, while backward runs it
  host,      ///< anything else the host does
  transfer,  ///< upload or download
  wait,      ///< the host waits for the GPU
};
const char* str(Category category);

/// Times are nanoseconds of std::chrono::steady_clock. Names live as long as the process.
struct HostSpan {
  const char* name = "";
  Category category = Category::host;
  std::uint32_t thread = 0;  ///< index into Profile::threads
  std::int64_t begin = 0, end = 0;
  std::uint64_t bytes = 0;  ///< bytes of a transfer
};

/// One dispatch, copy or fill on the GPU, in host time.
struct GpuSpan {
  const char* name = "";        ///< the op's name
  const char* node = nullptr;   ///< the tape node that backward was running; null outside backward
  const char* phase = nullptr;  ///< the phase it was queued in; null outside any
  std::uint32_t batch = 0;      ///< index into GpuProfile::batches
  std::uint32_t thread = 0;     ///< the thread that queued it, an index into Profile::threads
  std::int64_t queued = 0;      ///< when the host queued it (resubmitted work: when it was submitted)
  std::uint32_t at_once = 1;    ///< spans timed together in this interval, this one included
  std::int64_t begin = 0, end = 0;
};

/// The work of one submit.
struct GpuBatch {
  std::int64_t submitted = 0;       ///< when the host submitted it
  std::int64_t begin = 0, end = 0;  ///< on the GPU: begin of its first span, end of its last
  std::uint32_t thread = 0;
  std::uint32_t spans = 0;
};

/// One GPU's part of the profile. `spans` and `batches` are in order of submission.
struct GpuProfile {
  Device device;
  std::string name;
  std::string untimed;              ///< why times are missing, all or some; empty if none are
  std::string clock;                ///< how GPU time was converted to host time
  bool exact = false;               ///< each dispatch was timed individually (Timing::dispatches)
  std::int64_t clock_error_ns = 0;  ///< bound on the conversion's error
  std::vector<GpuSpan> spans;
  std::vector<GpuBatch> batches;
  std::uint64_t dispatches = 0, barriers = 0, submits = 0;
};

struct DeviceMemory {
  Device device;
  MemoryStats stats;  ///< at the end; the peak counts from the start of the process or reset_peak_memory()
};

/// Everything between start() and stop().
struct Profile {
  std::int64_t begin = 0, end = 0;
  std::vector<std::string> threads;
  std::vector<HostSpan> host;  ///< by thread, then by begin; outer before inner
  std::vector<GpuProfile> gpus;
  std::vector<DeviceMemory> memory;
  Transfers transfers;
  std::uint64_t dropped = 0;  ///< spans lost because the limit was reached

  std::int64_t wall_ns() const { return end - begin; }
  std::int64_t steps() const;
};

/// The part of a step that an op's time counts towards.
enum class Part : std::uint8_t {
  forward,
  backward,
  rest,  ///< clipping, the optimizer, transfers
};

/// One op's time, over the whole profile.
struct OpTime {
  std::string name;
  std::array<std::int64_t, 3> calls{}, ns{};  ///< indexed by Part
  std::int64_t all_calls() const { return calls[0] + calls[1] + calls[2]; }
  std::int64_t all_ns() const { return ns[0] + ns[1] + ns[2]; }
};

/// A profile in numbers. Nanoseconds over the whole profile; the report divides by steps.
struct Summary {
  std::int64_t steps = 0;
  std::int64_t wall_ns = 0;

  /// True: op times are the GPU's. False: they are the host's, and an op called by another counts towards that one.
  bool of_gpu = false;
  std::vector<OpTime> ops;  ///< longest first
  std::int64_t ops_ns = 0;  ///< their sum
  std::int64_t product_ns = 0, attention_ns = 0;

  struct Phase {
    std::string name;  ///< forward, backward, clip, optimizer, transfer ...
    std::int64_t ns = 0;
  };
  std::vector<Phase> phases;  ///< share the time base of `ops`

  /// The busiest GPU, an index into Profile::gpus; -1 where there is none. The members below describe that GPU; zero
  /// where it reported no times.
  int gpu = -1;
  std::int64_t busy_ns = 0;  ///< something ran: the union of its spans
  std::int64_t gaps_ns = 0;  ///< idle between the spans of a batch, if each was timed individually: barriers, launches
  std::int64_t latency_ns = 0;     ///< idle although work was submitted
  std::int64_t host_bound_ns = 0;  ///< idle with nothing submitted, while the host was not waiting for it
  std::int64_t waking_ns = 0;      ///< idle with nothing submitted, while the host still waited for it
  std::int64_t idle_ns() const { return wall_ns - busy_ns; }

  std::int64_t wait_ns = 0;    ///< the host waited for a GPU
  std::int64_t submit_ns = 0;  ///< the host submitted work to a GPU
};

Summary summarize(const Profile& profile);

/// A matmul, of a linear layer or its gradient.
bool is_product(const char* op);
bool is_attention(const char* op);

/// The profile as a readable table: times per step (totals where there were no steps), ops by time, what else the GPU
/// did, transfers, memory. docs/profiling.md explains each number.
std::string report(const Profile& profile);

/// Tries to create a file next to `path`, so a wrong name is reported before training, not after it.
/// @throws FormatError where that fails
void require_trace_writable(const std::string& path);

/// What such a file begins with, by the ending of its name (io::OutputFile::marks).
std::vector<std::string> trace_marks(const std::string& path);

/// Writes trace_picture() where `path` ends in .svg, else a Chrome trace (docs/profiling.md). The file is replaced as a
/// whole or not at all.
/// @throws FormatError where it cannot be written
void write_trace(const Profile& profile, const std::string& path);

/// What marks the picture near its beginning.
inline constexpr const char* kTracePictureMark = "class=\"etna-trace\"";

/// Two steps from the middle of the profile as an SVG: the host's spans, the tape's nodes, submits and waits, and the
/// GPU below them. Without steps: the whole profile.
std::string trace_picture(const Profile& profile);

}  // namespace etna::profile
