#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/device/memory.h>

#include "devices.h"
#include "measure.h"

using namespace etna;

namespace {

void print(const bench::Ceilings& ceilings) {
  fmt::print("ceilings: copy {:.0f} GB/s", ceilings.bytes * 1e-9);
  for (const auto& [t, flops] : ceilings.flops) fmt::print(", product in {} {:.1f} TFLOP/s", name(t), flops * 1e-12);
  fmt::print("\n{:<34} {:>11} {:>8} {:>10} {:>10} {:>8}\n", "op", "us a call", "spread", "GB/s", "TFLOP/s", "share");
}

void print(const bench::Timing& t) {
  if (!t.error.empty()) {
    fmt::print("{:<34} {}\n", t.name, t.error);
    return;
  }
  fmt::print("{:<34} {:>11.2f} {:>7.1f}% {:>10.0f} {:>10} {:>6.0f}% {}\n", t.name, t.seconds * 1e6, t.spread * 100,
             t.bytes * 1e-9, t.flops > 0 ? fmt::format("{:.2f}", t.flops * 1e-12) : "", t.share * 100,
             t.by_flops ? "flops" : "bytes");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Times ops one by one on GPUs, in the sizes of a training step, against what the GPU reaches in the same run."};
  bench::Wanted wanted;
  bench::add_options(app, wanted);

  return bench::run_program(app, argc, argv, [&] {
    const bench::Cases cases = bench::chosen_cases(wanted);
    set_strict(true);  // an op that falls back must not count as a kernel
    nlohmann::json devices = nlohmann::json::array();
    for (Device device : bench::chosen_devices(wanted.devices)) {
      if (device.is_cpu()) {
        if (wanted.devices.empty()) continue;  // not named explicitly
        throw DeviceError("bench_gpu times GPUs; bench_cpu times the CPU");
      }
      const bench::CeilingSizes sizes =
          wanted.effort.quick ? bench::CeilingSizes{1 << 16, 64} : bench::CeilingSizes{1 << 28, 8192};
      const bench::Ceilings ceilings = bench::measure_ceilings(device, wanted.effort, sizes, bench::seconds_on_gpu);
      fmt::print("{}: {}\n", device.str(), device_name(device));
      print(ceilings);
      nlohmann::json ops = nlohmann::json::array();
      for (const bench::Case& c : cases) {
        const bench::Timing t = bench::time_case(c, device, ceilings, wanted.effort, bench::seconds_on_gpu);
        print(t);
        ops.push_back(bench::json_of(t));
      }
      devices.push_back({{"device", device.str()},
                         {"device_name", device_name(device)},
                         {"ceilings", bench::json_of(ceilings)},
                         {"ops", ops}});
    }
    if (devices.empty()) throw DeviceError("no GPU; `etna devices` says what there is");
    bench::write_json(wanted.json, devices);
  });
}
