#pragma once

#include <map>
#include <string>
#include <vector>

#include <etna/device/device.h>

#include "../ops/case.h"

namespace bench {

/// How long to measure.
struct Effort {
  double seconds = 0.005;  ///< of GPU time between two waits
  double warm_up = 0.3;    ///< seconds of the same before
  int repeats = 7;         ///< of which the median counts
  bool quick = false;      ///< small ceilings and single calls: shows that it works, its figures mean little
};

/// What this GPU reached in this run: no op can be expected to do better, but for what lies in its caches.
struct Ceilings {
  double bytes = 0;                     ///< a second, read and written, of a copy far larger than the caches
  std::map<etna::DType, double> flops;  ///< a second, of the largest square product, by the dtype of its operands
};

/// One op's result.
struct Timing {
  std::string name;
  double seconds = 0;           ///< a call, the barrier behind it included
  double spread = 0;            ///< (largest - smallest) / median over the repeats
  double bytes = 0, flops = 0;  ///< a second
  double share = 0;             ///< of the ceiling: the time that bytes or flops take at it, over the time taken
  bool by_flops = false;        ///< which of the two bounds it
  std::string error = {};       ///< instead of all that
};

/// Median seconds a call of `call`, many recorded into one program and replayed, so that the host does not count. Each waits for the
/// one before: calls that share the GPU would hide each other's beginnings and ends.
/// @param spread where not null gets (largest - smallest) / median
/// @param one_by_one each dispatch waits for the one before, and is what the op recorded
double seconds_a_call(etna::Device device, const std::function<void()>& call, const Effort& effort,
                      double* spread = nullptr, bool one_by_one = true);

Ceilings measure_ceilings(etna::Device device, const Effort& effort);

/// @param what its name ends in "/bf16" or "/f16" where it computes in that
Timing time_case(const Case& what, etna::Device device, const Ceilings& ceilings, const Effort& effort);

}  // namespace bench
