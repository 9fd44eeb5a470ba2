#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/device/memory.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>

#include "devices.h"
#include "measure.h"

using namespace etna;

namespace {

void print(const bench::Ceilings& ceilings) {
  fmt::print("f32: {}; bf16: {}\n", cpu::f32_kernels(), cpu::bf16_kernels());
  fmt::print("ceilings: copy {:.1f} GB/s", ceilings.bytes * 1e-9);
  for (const auto& [t, flops] : ceilings.flops) fmt::print(", product in {} {:.1f} GFLOP/s", name(t), flops * 1e-9);
  fmt::print("\n{:<42} {:>12} {:>8} {:>8} {:>9} {:>13}  {}\n", "op", "us a call", "spread", "GB/s", "GFLOP/s", "share",
             "times as fast as");
  std::fflush(stdout);
}

void print(const bench::Timing& t, const bench::PeerSeconds& peers) {
  if (!t.error.empty()) {
    fmt::print("{:<42} {}\n", t.name, t.error);
    return;
  }
  fmt::print("{:<42} {:>12.2f} {:>7.1f}% {:>8.2f} {:>9} {:>6.0f}% {}", t.name, t.seconds * 1e6, t.spread * 100,
             t.bytes * 1e-9, t.flops > 0 ? fmt::format("{:.1f}", t.flops * 1e-9) : "", t.share * 100,
             t.by_flops ? "flops" : "bytes");
  // The full name, such as "Eigen 3.4.0 (AVX, 2 threads)", is printed below the table.
  for (const auto& [library, seconds] : peers) {
    fmt::print("  {} {:.2f}", library.substr(0, library.find(' ')), seconds / t.seconds);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Times ops one by one on the CPU, in the sizes of a training step, against what the CPU reaches in the same run, "
      "and products "
      "against Eigen and OpenBLAS called plainly, which multiply in f32."};
  bench::Wanted wanted;
  wanted.effort = {.seconds = 0.05, .warm_up = 0.05, .repeats = 5};
  bench::add_options(app, wanted);

  return bench::run_program(app, argc, argv, [&] {
    const bench::Cases cases = bench::chosen_cases(wanted);
    for (const std::string& name : wanted.devices) {
      if (name != "cpu") throw DeviceError(fmt::format("bench_cpu times the CPU; bench_gpu times '{}'", name));
    }
    set_strict(true);  // an op that falls back must not count as a kernel
    const bench::CeilingSizes sizes =
        wanted.effort.quick ? bench::CeilingSizes{1 << 16, 64} : bench::CeilingSizes{1 << 27, 4096};
    const bench::Ceilings ceilings = bench::measure_ceilings(kCPU, wanted.effort, sizes, bench::seconds_on_cpu);
    fmt::print("cpu: {}\n", device_name(kCPU));
    print(ceilings);
    bench::Peers peers(wanted.effort);
    std::set<std::string> libraries;
    nlohmann::json ops = nlohmann::json::array();
    for (const bench::Case& c : cases) {
      const bench::Timing t = bench::time_case(c, kCPU, ceilings, wanted.effort, bench::seconds_on_cpu);
      const bench::PeerSeconds beside = c.gemm ? peers.of(*c.gemm) : bench::PeerSeconds{};
      print(t, beside);
      nlohmann::json op = bench::json_of(t);
      for (const auto& [library, seconds] : beside) {
        libraries.insert(library);
        op["peers_us"][library] = seconds * 1e6;
      }
      ops.push_back(op);
    }
    for (const std::string& library : libraries) fmt::print("beside products: {}, f32\n", library);
    bench::write_json(wanted.json, {{{"device", "cpu"},
                                     {"device_name", device_name(kCPU)},
                                     {"kernels", {{"f32", cpu::f32_kernels()}, {"bf16", cpu::bf16_kernels()}}},
                                     {"ceilings", bench::json_of(ceilings)},
                                     {"ops", ops}}});
  });
}
