#pragma once

#include "../ceilings.h"

namespace bench {

/// Median seconds per call of `call`. Many calls are captured as one step and replayed, so that host time does not
/// count. Each call waits for the previous one: overlapping calls would hide each other's starts and ends.
/// @param spread if not null, receives (largest - smallest) / median
/// @param captured order and fuse the dispatches as in a captured step; otherwise run them in the order of the calls,
/// each waiting for the previous one
double seconds_on_gpu(etna::Device device, const std::function<void()>& call, const Effort& effort, double* spread,
                      bool captured);

}  // namespace bench
