#include <algorithm>
#include <cstdio>

#include <fmt/core.h>

#include <etna/device/memory.h>
#include <etna/device/output_file.h>

#include "bench.h"
#include "commands.h"
#include "output.h"

namespace etna::cli {
namespace {

/// The named devices. Without names, all usable ones except software rasterizers, which take long and tell little.
std::vector<AdapterInfo> bench_chosen(const std::vector<std::string>& names) {
  const std::vector<AdapterInfo> all = adapters();
  std::vector<AdapterInfo> some;
  for (const std::string& name : names) {
    const Device device = select_device(name);
    for (const AdapterInfo& a : all) {
      const bool known = std::any_of(some.begin(), some.end(), [&](const auto& s) { return s.device == device; });
      if (a.device == device && !known) some.push_back(a);
    }
  }
  if (!names.empty()) return some;
  for (const AdapterInfo& a : all) {
    if (!a.rejected.empty()) {
      fmt::print("{}: {} cannot be used: {}\n\n", a.device.str(), a.name, a.rejected);
    } else if (a.kind == "software") {
      fmt::print("{}: {} is a software rasterizer; --device {} measures it\n\n", a.device.str(), a.name,
                 a.device.str());
    } else {
      some.push_back(a);
    }
  }
  return some;
}

}  // namespace

int bench(const BenchOptions& options) {
  const std::vector<AdapterInfo> devices = bench_chosen(options.devices);
  io::require_output({"--json", options.json, json_marks(kDoctorBench)}, options.force);
  // Strict: a matrix product that silently fell back to the CPU would say nothing about the device.
  set_strict(true);
  const Effort effort = options.quick ? Effort{.quick = true, .seconds = 0.002, .repeats = 3} : Effort{};
  std::vector<Sheet> sheets;
  bool failed = false;
  for (const AdapterInfo& adapter : devices) {
    Sheet& sheet = sheets.emplace_back(adapter, effort);
    if (adapter.device.is_cpu()) {
      bench_processor(sheet);
    } else {
      bench_dispatches(sheet);
      bench_replays(sheet);
      bench_memory(sheet);
    }
    bench_gemm(sheet);
    empty_cache(adapter.device);
    fmt::print("{}\n", table(sheet));
    std::fflush(stdout);
    failed = failed || sheet.failed();
  }
  fmt::print("{}", legend(sheets));
  if (!options.json.empty()) io::write_file(options.json, json(sheets));
  return failed ? 3 : 0;
}

}  // namespace etna::cli
