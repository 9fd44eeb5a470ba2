#include "measure.h"

#include <algorithm>
#include <chrono>

#include <etna/autograd/autograd.h>
#include <etna/device/memory.h>
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

DType dtype_of(const std::string& name) {
  if (name.ends_with("/bf16")) return bf16;
  return name.ends_with("/f16") ? f16 : f32;
}

}  // namespace

double seconds_a_call(Device device, const std::function<void()>& call, const Effort& effort, double* spread,
                      bool one_by_one) {
  call();  // builds pipelines, fills the allocator's cache
  synchronize(device);
  const double once = seconds_of(device, call);
  const int calls = effort.quick ? 1 : static_cast<int>(std::clamp(effort.seconds / once, 1.0, 64.0));
  auto program = capture(
      [&] {
        for (int i = 0; i < calls; ++i) call();
      },
      {.device = device, .name = "benchmark", .one_by_one = one_by_one});
  // A GPU that has idled, as while the host made the inputs, takes hundreds of milliseconds to raise its clocks.
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

Ceilings measure_ceilings(Device device, const Effort& effort) {
  Ceilings ceilings;
  NoGrad no_grad;
  {
    const std::int64_t elements = effort.quick ? 1 << 16 : 1 << 28;
    const Tensor from = ones({elements}, {f32, device});
    Tensor to = empty({elements}, {f32, device});
    ceilings.bytes = 8 * static_cast<double>(elements) /
                     seconds_a_call(
                         device, [&] { to.copy_(from); }, effort);
  }
  const std::int64_t side = effort.quick ? 64 : 8192;
  for (DType t : {f32, f16, bf16}) {
    const Tensor a = normal({side, side}, device, t), b = normal({side, side}, device, t);
    const double flops = 2 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side);
    ceilings.flops[t] = flops / seconds_a_call(
                                    device, [&] { matmul(a, b); }, effort);
  }
  empty_cache(device);
  return ceilings;
}

Timing time_case(const Case& what, Device device, const Ceilings& ceilings, const Effort& effort) {
  Timing t{.name = what.name};
  try {
    t.seconds = seconds_a_call(device, what.prepare(device), effort, &t.spread, !what.captured);
    t.bytes = what.bytes / t.seconds;
    t.flops = what.flops / t.seconds;
    const double by_bytes = t.bytes / ceilings.bytes, by_flops = t.flops / ceilings.flops.at(dtype_of(what.name));
    t.by_flops = by_flops > by_bytes;
    t.share = std::max(by_bytes, by_flops);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    t.error = error.what();
  }
  empty_cache(device);
  return t;
}

}  // namespace bench
