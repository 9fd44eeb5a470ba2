#include <fstream>
#include <regex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/device/transfers.h>

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

nlohmann::json json_of(const bench::Timing& t) {
  if (!t.error.empty()) return {{"op", t.name}, {"error", t.error}};
  return {{"op", t.name},
          {"us", t.seconds * 1e6},
          {"spread", t.spread},
          {"gbs", t.bytes * 1e-9},
          {"gflops", t.flops * 1e-9},
          {"share", t.share},
          {"bound", t.by_flops ? "flops" : "bytes"}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Times ops one by one on GPUs, in the sizes of a training step, against what the GPU reaches in the same run."};
  std::vector<std::string> device_names, presets = {"tiny"};
  std::string filter, json;
  bench::Effort effort;
  bench::add_device_option(app, device_names);
  app.add_option("--preset", presets, "whose sizes, several by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::workload_names()))
      ->capture_default_str();
  app.add_option("--filter", filter, "only ops whose name this regular expression finds");
  app.add_option("--repeats", effort.repeats, "of which the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--quick", effort.quick, "each once: shows that it works, the figures mean little");
  app.add_option("--json", json, "also write the figures to this file");

  return bench::run_program(app, argc, argv, [&] {
    std::regex wanted;
    try {
      wanted.assign(filter);
    } catch (const std::regex_error&) {
      throw CLI::ValidationError("--filter", "no regular expression: " + filter);
    }
    set_strict(true);  // an op that falls back must not pass for a kernel
    nlohmann::json devices = nlohmann::json::array();
    for (Device device : bench::chosen_devices(device_names)) {
      if (device.is_cpu()) {
        if (device_names.empty()) continue;  // named by nobody
        throw DeviceError("bench_gpu times GPUs; bench_ops times the CPU as well");
      }
      const bench::Ceilings ceilings = bench::measure_ceilings(device, effort);
      fmt::print("{}: {}\n", device.str(), device_name(device));
      print(ceilings);
      nlohmann::json ops = nlohmann::json::array();
      for (const std::string& preset : presets) {
        for (bench::Case c : bench::all_cases(bench::find_workload(preset))) {
          if (!std::regex_search(c.name, wanted)) continue;
          c.name = fmt::format("{}/{}", preset, c.name);
          const bench::Timing t = bench::time_case(c, device, ceilings, effort);
          print(t);
          ops.push_back(json_of(t));
        }
      }
      nlohmann::json products;
      for (const auto& [t, flops] : ceilings.flops) products[std::string(name(t))] = flops * 1e-9;
      devices.push_back({{"device", device.str()},
                         {"device_name", device_name(device)},
                         {"ceilings", {{"copy_gbs", ceilings.bytes * 1e-9}, {"product_gflops", products}}},
                         {"ops", ops}});
    }
    if (devices.empty()) throw DeviceError("no GPU; `etna devices` says what there is");
    if (json.empty()) return;
    std::ofstream out(json);
    out << devices.dump(2) << '\n';
    if (!out.flush()) throw Error(fmt::format("cannot write {}", json));
  });
}
