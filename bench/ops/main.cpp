#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "case.h"
#include "devices.h"

using namespace etna;

namespace {

/// Calls queued between two waits: on a GPU enough that the wait does not count.
std::int64_t calls_a_wait(Device device) { return device.is_cpu() || bench::is_software(device) ? 1 : 32; }

void time_case(benchmark::State& state, const bench::Case& what, Device device, std::int64_t batch) {
  try {
    std::function<void()> call = what.prepare(device);
    call();  // builds pipelines, warms up the allocator's cache
    synchronize(device);
    while (state.KeepRunningBatch(batch)) {
      for (std::int64_t i = 0; i < batch; ++i) call();
      synchronize(device);
    }
    const auto calls = static_cast<double>(state.iterations());
    if (what.bytes > 0) {
      state.counters["GB/s"] = benchmark::Counter(what.bytes * calls * 1e-9, benchmark::Counter::kIsRate);
    }
    if (what.flops > 0) {
      state.counters["GFLOP/s"] = benchmark::Counter(what.flops * calls * 1e-9, benchmark::Counter::kIsRate);
    }
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
  empty_cache(device);
}

}  // namespace

int main(int argc, char** argv) {
  // Separates Google Benchmark's options (--benchmark_filter ...) from ours; --help is left to CLI11.
  std::vector<char*> ours, theirs = {argv[0]};
  for (int i = 0; i < argc; ++i) {
    (std::string_view(argv[i]).starts_with("--benchmark_") ? theirs : ours).push_back(argv[i]);
  }
  CLI::App app{"Times ops one by one, on each device, in the sizes of a training step."};
  app.footer("Google Benchmark's options work too: --benchmark_filter=REGEX, --benchmark_format=json ...");
  std::vector<std::string> device_names, presets = {"tiny"};
  double seconds = 0.1;
  bench::add_device_option(app, device_names);
  app.add_option("--preset", presets, "whose sizes, several by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(bench::workload_names()))
      ->capture_default_str();
  app.add_option("--min-time", seconds, "seconds each op runs at least")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();

  return bench::run_program(app, static_cast<int>(ours.size()), ours.data(), [&] {
    int count = static_cast<int>(theirs.size());
    theirs.push_back(nullptr);
    benchmark::Initialize(&count, theirs.data());
    set_strict(true);  // an op that falls back must not count as a kernel
    for (Device device : bench::chosen_devices(device_names)) {
      benchmark::AddCustomContext(device.str(), device_name(device));
      const std::int64_t batch = calls_a_wait(device);
      for (const std::string& preset : presets) {
        for (const bench::Case& c : bench::all_cases(bench::find_workload(preset))) {
          benchmark::RegisterBenchmark(fmt::format("{}/{}/{}", device.str(), preset, c.name).c_str(),
                                       [=](benchmark::State& state) { time_case(state, c, device, batch); })
              ->UseRealTime()
              ->MinTime(seconds)
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
  });
}
