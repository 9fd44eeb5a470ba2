#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/kernel.h>
#include <etna/device/memory.h>
#include <etna/device/profile/profiler.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/dtype.h>

#include "workload.h"

namespace bench {

struct StepOptions {
  std::int64_t steps = 0;    ///< to time; 0: 5 on the CPU, 50 on a GPU
  std::int64_t warm_up = 0;  ///< before the timed ones; 0: 2 on the CPU, 5 on a GPU
  std::int64_t profile = 0;  ///< steps to profile after the timed ones
  etna::profile::Timing timing = etna::profile::Timing::automatic;
  std::int64_t span = 0;              ///< steps between two waits for the device; 0: 1 on the CPU, 10 on a GPU
  etna::DType precision = etna::f32;  ///< of matrix products; f16 with loss scaling
  bool captured = false;              ///< replay a captured step; otherwise run op by op
  bool reduce = true;                 ///< gradients over all processes of the group, if there are several
  etna::DType reduced = etna::f32;    ///< what they travel in
  std::int64_t bucket_bytes = 0;      ///< of gradients; 0: DataParallel's choice
};

/// Timings of the steps. The counters cover all timed steps together.
struct StepTimes {
  std::int64_t steps = 0;
  std::int64_t parameters = 0;
  etna::DType precision = etna::f32;
  std::vector<double> span_ms;  ///< ms per step, one figure per span
  double host_ms = 0;           ///< median ms of a step's call, until everything is queued
  double first_ms = 0;          ///< of the very first step: includes pipelines and memory
  double first_loss = 0, last_loss = 0;
  std::uint64_t peak_device = 0, peak_host = 0;  ///< bytes, including the warm-up
  std::uint64_t misses = 0;                      ///< allocations that reached the system
  etna::Transfers transfers;
  etna::gpu::QueueStats queue;
  std::optional<etna::profile::Profile> profile;
  std::optional<etna::CaptureReport> program;  ///< of a captured step

  double median_ms() const;
};

/// Trains the workload's model on random tokens: forward, backward, clipping to norm 1, AdamW. Each step uploads its
/// batch.
StepTimes time_steps(const Workload& workload, etna::Device device, StepOptions options);

}  // namespace bench
