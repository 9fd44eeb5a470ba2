#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/memory.h>
#include <etna/device/transfers.h>

/// What the profiler gathered, as values. Taken by <etna/device/profile/profiler.h>; read by the report and the trace
/// writers.
namespace etna::profile {

/// What a host span is of.
enum class Category : std::uint8_t {
  step,      ///< one training step; the report divides by their number
  phase,     ///< backward, clip, optimizer: what ran inside is counted apart. Outside any it is the forward pass
  op,        ///< an op, from its call to its return
  autograd,  ///< a node of the tape, while backward works on it
  host,      ///< anything else the host does
  transfer,  ///< upload or download
  wait,      ///< the host waits for the GPU
};
const char* str(Category category);

/// Times are nanoseconds of std::chrono::steady_clock. Names live as long as the process.
struct HostSpan {
  const char* name = "";
  Category category = Category::host;
  std::uint32_t thread = 0;  ///< of Profile::threads
  std::int64_t begin = 0, end = 0;
  std::uint64_t bytes = 0;  ///< of a transfer
};

/// One dispatch, copy or fill on the GPU, in the host's time.
struct GpuSpan {
  const char* name = "";        ///< of the op
  const char* node = nullptr;   ///< the tape's node that backward was working on; null outside backward
  const char* phase = nullptr;  ///< the phase it was recorded in; null in none
  std::uint32_t batch = 0;      ///< of GpuProfile::batches
  std::uint32_t thread = 0;     ///< that recorded it, of Profile::threads
  std::int64_t recorded = 0;    ///< when the host recorded it (resubmitted work: when it was submitted)
  std::uint32_t at_once = 1;  ///< so many spans, this one among them, ran in this time, which is known of them together
  std::int64_t begin = 0, end = 0;
};

/// What one submit brought to the GPU.
struct GpuBatch {
  std::int64_t submitted = 0;       ///< when the host called
  std::int64_t begin = 0, end = 0;  ///< on the GPU: begin of its first span, end of its last
  std::uint32_t thread = 0;
  std::uint32_t spans = 0;
};

/// One GPU's share. `spans` and `batches` are in order of submission.
struct GpuProfile {
  Device device;
  std::string name;
  std::string untimed;              ///< why there are no times, or not all; empty where there are
  std::string clock;                ///< how GPU time was brought to host time
  bool exact = false;               ///< each dispatch was timed by itself (Timing::dispatches)
  std::int64_t clock_error_ns = 0;  ///< a bound on what is wrong with it
  std::vector<GpuSpan> spans;
  std::vector<GpuBatch> batches;
  std::uint64_t dispatches = 0, barriers = 0, submits = 0;
};

struct DeviceMemory {
  Device device;
  MemoryStats stats;  ///< at the end; the peak is since the start of the process or reset_peak_memory()
};

/// Everything between start() and stop().
struct Profile {
  std::int64_t begin = 0, end = 0;
  std::vector<std::string> threads;
  std::vector<HostSpan> host;  ///< by thread, then by begin, outer before inner
  std::vector<GpuProfile> gpus;
  std::vector<DeviceMemory> memory;
  Transfers transfers;
  std::uint64_t dropped = 0;  ///< spans that found no room

  std::int64_t wall_ns() const { return end - begin; }
  std::int64_t steps() const;
};

}  // namespace etna::profile
