#include "measure.h"

#include <algorithm>
#include <chrono>

#include <etna/tensor/capture.h>

namespace bench {

using namespace etna;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(Device device, const std::function<void()>& work) {
  auto start = Clock::now();
  work();
  synchronize(device);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

double seconds_on_gpu(Device device, const std::function<void()>& call, const Effort& effort, double* spread,
                      bool captured) {
  call();  // builds pipelines, warms up the allocator's cache
  synchronize(device);
  const double once = seconds_of(device, call);
  const int calls = effort.quick ? 1 : static_cast<int>(std::clamp(effort.seconds / once, 1.0, 64.0));
  auto program = capture(
      [&] {
        for (int i = 0; i < calls; ++i) call();
      },
      {.device = device, .name = "benchmark", .one_by_one = !captured});
  // A GPU that was idle, for example while the host made the inputs, takes hundreds of milliseconds to raise its
  // clocks.
  const auto start = Clock::now();
  do {
    program();
    synchronize(device);
  } while (!effort.quick && std::chrono::duration<double>(Clock::now() - start).count() < effort.warm_up);
  const double one_replay = seconds_of(device, [&] { program(); });
  const int replays = effort.quick ? 1 : std::max(1, static_cast<int>(effort.seconds / one_replay));
  std::vector<double> runs;
  for (int i = 0; i < (effort.quick ? 1 : effort.repeats); ++i) {
    runs.push_back(seconds_of(device,
                              [&] {
                                for (int k = 0; k < replays; ++k) program();
                              }) /
                   (static_cast<double>(replays) * calls));
  }
  std::sort(runs.begin(), runs.end());
  const double median = runs[runs.size() / 2];
  if (spread != nullptr) *spread = (runs.back() - runs.front()) / median;
  return median;
}

}  // namespace bench
