#pragma once

#include "../ceilings.h"

namespace bench {

/// Median seconds a call of `call`, many recorded into one program and replayed, so that the host does not count. Each
/// waits for the one before: calls that share the GPU would hide each other's beginnings and ends.
/// @param spread where not null gets (largest - smallest) / median
/// @param captured calls and their dispatches are ordered and joined as in a step; else each dispatch waits for the one
/// before, and is what the op recorded
double seconds_on_gpu(etna::Device device, const std::function<void()>& call, const Effort& effort, double* spread,
                      bool captured);

}  // namespace bench
