#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/dist/dist.h>
#include <etna/tensor/ops.h>

#include "devices.h"

/// Times collectives of the group that started this process (etna launch, torchrun), in place, many between two waits.
using namespace etna;

namespace {

using Clock = std::chrono::steady_clock;

/// Seconds a call, the median of several runs.
double seconds_a_call(Device device, int calls, int runs, const std::function<void()>& call) {
  for (int i = 0; i < calls; ++i) call();
  synchronize(device);
  std::vector<double> seconds;
  for (int run = 0; run < runs; ++run) {
    distributed::barrier();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    synchronize(device);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count() / calls);
  }
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[static_cast<std::size_t>(runs / 2)];
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times all_reduce of f32 tensors over the processes of a group."};
  std::string device_name;
  std::vector<std::int64_t> sizes{64, 1024, 16384, 262144};
  int calls = 0;
  app.add_option("--device", device_name, "each process's (default: a GPU of its own)");
  app.add_option("--kib", sizes, "bytes of a tensor in KiB, several by commas")->delimiter(',')->capture_default_str();
  app.add_option("--calls", calls, "between two waits (default: 500 on a GPU, 10 on the CPU)")
      ->check(CLI::PositiveNumber);
  return bench::run_program(app, argc, argv, [&] {
    distributed::init();
    const Device device = distributed::select_local_device(device_name);
    if (calls == 0) calls = device.is_cpu() ? 10 : 500;
    if (distributed::rank() == 0) fmt::print("{} processes on {}\n", distributed::size(), device.str());
    const NoGrad no_grad;
    for (const std::int64_t kib : sizes) {
      const Tensor x = ones({kib * 256}, {f32, device});
      const double s =
          seconds_a_call(device, calls, 7, [&] { distributed::all_reduce_(x, distributed::Reduce::mean); });
      const double ranks = distributed::size();
      // What each link carries (bus bandwidth): independent of the number of ranks.
      const double bus = static_cast<double>(kib) * 1024 / s * 2 * (ranks - 1) / ranks * 1e-9;
      if (distributed::rank() == 0) fmt::print("all_reduce {:>8} KiB {:>10.1f} us {:>8.1f} GB/s\n", kib, s * 1e6, bus);
    }
    if (distributed::rank() == 0) fmt::print("by {}\n", distributed::engine());
    distributed::finish();
  });
}
