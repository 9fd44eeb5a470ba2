#include "measure.h"

#include <algorithm>
#include <chrono>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

namespace bench {

using namespace etna;

namespace {

template <typename Run>
double median_ms(const Setting& setting, int calls, Run& run) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 3; ++i) run();
  synchronize(setting.device);
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    for (int n = 0; n < calls; ++n) run();
    synchronize(setting.device);
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / calls);
  }
  std::sort(times.begin(), times.end());
  return times[2];
}

}  // namespace

double milliseconds(const Setting& setting, const std::function<TensorList()>& call) {
  if (!setting.captured) return median_ms(setting, setting.calls, call);
  auto step = capture(call, {.device = setting.device});
  const double alone = median_ms(setting, setting.calls, step);
  // A replay costs some microseconds by itself, which a layer shares with all others of a step. There are as many calls
  // as otherwise: at its limit of power, a GPU is slower the longer it works.
  constexpr double kShort = 1;
  const int repeats = std::min(setting.calls, 10);
  if (alone > kShort) return alone;
  auto repeated = [&] {
    TensorList all;
    for (int i = 0; i < repeats; ++i) {
      for (const Tensor& result : call()) all.push_back(result);
    }
    return all;
  };
  auto steps = capture(repeated, {.device = setting.device, .one_by_one = true});
  return median_ms(setting, setting.calls / repeats, steps) / repeats;
}

Row timed(const Setting& setting, std::string group, std::string name, const std::function<Tensor()>& forward,
          const std::vector<Tensor>& leaves) {
  Row row{std::move(group), std::move(name), setting.dtype};
  if (row.name.find(setting.only) == std::string::npos) return row;
  Tensor seed;
  {
    NoGrad off;
    manual_seed(1);
    const Tensor y = forward();
    const bool last_channels = y.dim() == 4 && !y.is_contiguous();
    seed = randn(last_channels ? Shape{y.size(0), y.size(2), y.size(3), y.size(1)} : y.shape());
    seed = seed.to(setting.device, setting.dtype);
    if (last_channels) seed = seed.permute({0, 3, 1, 2});
    row.forward_ms = milliseconds(setting, [&] { return TensorList{forward()}; });
  }
  row.both_ms = milliseconds(setting, [&] { return autograd::grad(TensorList{forward()}, leaves, TensorList{seed}); });
  return row;
}

Row timed(const Setting& setting, std::string group, std::string name, const std::function<TensorList()>& forward) {
  NoGrad off;
  Row row{std::move(group), std::move(name), setting.dtype};
  if (row.name.find(setting.only) == std::string::npos) return row;
  row.forward_ms = milliseconds(setting, forward);
  return row;
}

}  // namespace bench
