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
double median_ms(const Setting& setting, Run& run) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 3; ++i) run();
  synchronize(setting.device);
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    for (int n = 0; n < setting.calls; ++n) run();
    synchronize(setting.device);
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / setting.calls);
  }
  std::sort(times.begin(), times.end());
  return times[2];
}

}  // namespace

double milliseconds(const Setting& setting, const std::function<TensorList()>& call) {
  if (!setting.captured) return median_ms(setting, call);
  auto step = capture(call, {.device = setting.device});
  return median_ms(setting, step);
}

Row timed(const Setting& setting, std::string group, std::string name, const std::function<Tensor()>& forward,
          const std::vector<Tensor>& leaves) {
  Row row{std::move(group), std::move(name), setting.dtype};
  if (row.name.find(setting.only) == std::string::npos) return row;
  Tensor seed;
  {
    NoGrad off;
    manual_seed(1);
    seed = randn(forward().shape()).to(setting.device, setting.dtype);
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
