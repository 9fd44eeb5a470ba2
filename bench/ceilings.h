#pragma once

#include <functional>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include <etna/device/device.h>

#include "ops/case.h"

/// Ops against what their device reaches in the same run: bench_gpu and bench_cpu.
namespace bench {

/// How long to measure.
struct Effort {
  double seconds = 0.005;  ///< of work between two looks at the clock
  double warm_up = 0.3;    ///< seconds of the same before
  int repeats = 7;         ///< of which the median counts
  bool quick = false;      ///< small ceilings and single calls: shows that it works, its figures mean little
};

/// What a device reached in this run: no op can be expected to do better, but for what lies in its caches.
struct Ceilings {
  double bytes = 0;                     ///< a second, read and written, of a copy far larger than the caches
  std::map<etna::DType, double> flops;  ///< a second, of a large square product, by the dtype of its operands
};

/// How large the copy and the products are that make the ceilings.
struct CeilingSizes {
  std::int64_t copied = 0;  ///< f32 elements
  std::int64_t side = 0;    ///< of the square product
};

/// One op's result.
struct Timing {
  std::string name;
  double seconds = 0;           ///< a call
  double spread = 0;            ///< (largest - smallest) / median over the repeats
  double bytes = 0, flops = 0;  ///< a second
  double share = 0;             ///< of the ceiling: the time that bytes or flops take at it, over the time taken
  bool by_flops = false;        ///< which of the two bounds it
  std::string error = {};       ///< instead of all that
};

/// Median seconds a call of something.
/// @param spread where not null gets (largest - smallest) / median
/// @param captured time it as a captured step runs it (Case::captured)
using Timer = std::function<double(etna::Device, const std::function<void()>& call, const Effort&, double* spread,
                                   bool captured)>;

Ceilings measure_ceilings(etna::Device device, const Effort& effort, const CeilingSizes& sizes, const Timer& timer);

/// @param what its name ends in "/bf16" or "/f16" where it computes in that
Timing time_case(const Case& what, etna::Device device, const Ceilings& ceilings, const Effort& effort,
                 const Timer& timer);

/// What was asked for on the command line.
struct Wanted {
  std::vector<std::string> devices, presets = {"tiny"};
  std::string filter, json;
  Effort effort;
};

/// Adds --device, --preset, --filter, --repeats, --quick and --json.
void add_options(CLI::App& app, Wanted& wanted);

/// The cases of the presets whose name the filter finds, named "preset/op".
/// @throws CLI::ValidationError where the filter is no regular expression or finds nothing
Cases chosen_cases(const Wanted& wanted);

nlohmann::json json_of(const Timing& t);
nlohmann::json json_of(const Ceilings& ceilings);
/// @param file nothing is written where it is empty. @throws etna::Error where it cannot be
void write_json(const std::string& file, const nlohmann::json& what);

}  // namespace bench
