#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "demo.h"

using namespace etna;

namespace {

/// Microseconds of a call: the median of five runs, each of as many calls as take about 20 ms.
double microseconds(Device device, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto run = [&](int calls) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    synchronize(device);
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls;
  };
  run(2);
  const int calls = std::clamp(static_cast<int>(2e4 / run(1)), 1, 1000);
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) times.push_back(run(calls));
  std::sort(times.begin(), times.end());
  return times[2];
}

struct Work {
  const char* name;
  std::function<void(const Tensor& x)> run;
};

}  // namespace

void crossover(Device device, std::int64_t largest) {
  const std::vector<Work> works = {
      {"x + x", [](const Tensor& x) { x + x; }},
      {"softmax(x, -1)", [](const Tensor& x) { softmax(x, -1); }},
      {"sum(x)", [](const Tensor& x) { sum(x); }},
      {"x.matmul(x)", [](const Tensor& x) { x.matmul(x); }},
  };
  NoGrad off;
  manual_seed(1);
  for (const Work& work : works) {
    std::printf("\n%s of f32 [n, n]\n%8s %12s %12s %8s\n", work.name, "n", "CPU us", "GPU us", "ratio");
    std::int64_t wins_from = 0;
    for (std::int64_t n = 64; n <= largest; n *= 2) {
      const Tensor x = randn({n, n}), y = x.to(device);
      const double cpu = microseconds(kCPU, [&] { work.run(x); });
      const double gpu = microseconds(device, [&] { work.run(y); });
      std::printf("%8lld %12.1f %12.1f %8.2f\n", static_cast<long long>(n), cpu, gpu, cpu / gpu);
      if (gpu >= cpu)
        wins_from = 0;
      else if (wins_from == 0)
        wins_from = n;
    }
    if (wins_from > 0)
      std::printf("%s is faster from n = %lld on.\n", device.str().c_str(), static_cast<long long>(wins_from));
    else
      std::printf("The CPU is faster at the largest of these sizes.\n");
  }
}
