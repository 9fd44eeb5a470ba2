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

/// Compares ops with what their device reaches in the same run: bench_gpu and bench_cpu.
namespace bench {

/// How long to measure.
struct Effort {
  double seconds = 0.005;  ///< of work between two reads of the clock
  double warm_up = 0.3;    ///< seconds of the same work before measuring
  int repeats = 7;         ///< the result is their median
  bool quick = false;      ///< small ceilings and single calls: shows that everything works; the figures mean little
};

/// What a device reached in this run. No op should do better, except on data in its caches.
struct Ceilings {
  double bytes = 0;                     ///< read and written per second by a copy far larger than the caches
  std::map<etna::DType, double> flops;  ///< per second, of a large square gemm, by operand dtype
};

/// The sizes of the copy and of the gemms that measure the ceilings.
struct CeilingSizes {
  std::int64_t copied = 0;  ///< f32 elements
  std::int64_t side = 0;    ///< of the square gemm
};

/// One op's result.
struct Timing {
  std::string name;
  double seconds = 0;           ///< per call
  double spread = 0;            ///< (largest - smallest) / median over the repeats
  double bytes = 0, flops = 0;  ///< per second
  /// of the ceiling: the time that the bytes or flops take at the ceiling, over the measured time
  double share = 0;
  bool by_flops = false;   ///< true: flops are the bound, false: bytes
  std::string error = {};  ///< if set, there are no figures
};

/// Median seconds per call.
/// @param spread if not null, receives (largest - smallest) / median
/// @param captured time the call as a captured step runs it (Case::captured)
using Timer = std::function<double(etna::Device, const std::function<void()>& call, const Effort&, double* spread,
                                   bool captured)>;

Ceilings measure_ceilings(etna::Device device, const Effort& effort, const CeilingSizes& sizes, const Timer& timer);

/// @param what a name ending in "/bf16" or "/f16" gives the compute dtype
Timing time_case(const Case& what, etna::Device device, const Ceilings& ceilings, const Effort& effort,
                 const Timer& timer);

/// The command line's choices.
struct Wanted {
  std::vector<std::string> devices, presets = {"tiny"};
  std::string filter, json;
  Effort effort;
};

/// Adds --device, --preset, --filter, --repeats, --quick, --json and --force.
void add_options(CLI::App& app, Wanted& wanted);

/// The cases of the chosen presets whose names match the filter, named "preset/op".
/// @throws CLI::ValidationError if the filter is not a regular expression or matches nothing
Cases chosen_cases(const Wanted& wanted);

nlohmann::json json_of(const Timing& t);
nlohmann::json json_of(const Ceilings& ceilings);
/// @param file if empty, nothing is written @throws etna::Error if it cannot be written
void write_json(const std::string& file, const nlohmann::json& what);

}  // namespace bench
