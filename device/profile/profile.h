#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/memory.h>
#include <etna/device/transfers.h>

/// The profiler's results as plain values. <etna/device/profile/profiler.h> takes them; the report and the trace
/// writers read them.
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

}  // namespace etna::profile
