#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/device/memory.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/sorting/sorting.h>

#include "devices.h"

/// Times sorting, selection, running sums and writes by index, in the sizes in which PyTorch's are known.
using namespace etna;

namespace {

using Clock = std::chrono::steady_clock;

/// Milliseconds a call: the median of five rounds.
void row(Device device, const std::string& name, int calls, const std::function<void()>& call) {
  try {
    for (int i = 0; i < 3; ++i) call();
    synchronize(device);
    std::vector<double> rounds;
    for (int round = 0; round < 5; ++round) {
      const auto start = Clock::now();
      for (int i = 0; i < calls; ++i) call();
      synchronize(device);
      rounds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count() / calls);
    }
    std::sort(rounds.begin(), rounds.end());
    fmt::print("{:<10} {:<44} {:>10.4f}\n", device.str(), name, rounds[2]);
  } catch (const Error& error) {
    fmt::print("{:<10} {:<44} {}\n", device.str(), name, error.what());
  }
  std::fflush(stdout);
  empty_cache(device);
}

void measure(Device device, std::int64_t n, std::int64_t rows, int calls) {
  manual_seed(1);
  const Tensor x = randn({n}).to(device), r = randn({rows, 4096}).to(device);
  auto free = [](auto call) {
    return [=] {
      NoGrad off;
      call();
    };
  };
  const std::string size = std::to_string(n), matrix = fmt::format("({}, 4096)", rows);
  row(device, "sort " + size, calls, free([=] { sort(x); }));
  row(device, "argsort of i64 " + size, calls, free([i = (x * 1e6).to(i64)] { argsort(i); }));
  row(device, "sort rows " + matrix, calls, free([=] { sort(r, 1); }));
  row(device, "sort rows of bf16 " + matrix, calls, free([b = r.to(bf16)] { sort(b, 1); }));
  row(device, "topk 32 of rows " + matrix, calls, free([=] { topk(r, 32, 1); }));
  row(device, "topk 50 of " + size, calls, free([=] { topk(x, 50); }));
  row(device, "median " + size, calls, free([=] { median(x); }));
  const Tensor tokens = randint(0, 50257, {16384}).to(device);
  Tensor weight = randn({50257, 768}).to(device).requires_grad_();
  const Tensor grad = ones({16384, 768}, {f32, device});
  row(device, "embedding 50257x768 of 16384", calls, free([=] { embedding(weight, tokens); }));
  row(device, "embedding 50257x768 of 16384, and backward", calls, [=] {
    Tensor w = weight;
    w.set_grad({});
    embedding(w, tokens).backward(grad);
  });
  const Tensor few = zeros({n / 16}, {f32, device}), places = randint(0, n / 16, {n}).to(device);
  row(device, fmt::format("scatter_add {} into {}", n, n / 16), calls, free([=] { scatter_add(few, 0, places, x); }));
  row(device, fmt::format("scatter {} into {}", n, n / 16), calls, free([=] { scatter(few, 0, places, x); }));
  row(device, "cumsum " + size, calls, free([=] { cumsum(x, 0); }));
  row(device, "cumprod of rows " + matrix, calls, free([=] { cumprod(r, 1); }));
  row(device, "cummax of rows " + matrix, calls, free([=] { cummax(r, 1); }));
  row(device, "masked_select " + size, calls, free([x, m = x > 0.0] { masked_select(x, m); }));
  row(device, "nonzero " + size, calls, free([m = x > 0.0] { nonzero(m); }));
  row(device, "unique " + size, calls, free([i = (x * 1000.0).to(i32)] { unique(i); }));
  row(device, "searchsorted 4096 of " + size, calls,
      free([x, s = sort(r.select(0, 0)).values] { searchsorted(s, x); }));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times sorting, selection and writes by index; milliseconds a call."};
  std::vector<std::string> names;
  std::int64_t n = 0, rows = 0;
  bench::add_device_option(app, names);
  app.add_option("--elements", n, "of long lists; default 2^24 on a GPU, 2^20 on the CPU")->check(CLI::PositiveNumber);
  app.add_option("--rows", rows, "of 4096 elements; default 4096 on a GPU, 256 on the CPU")->check(CLI::PositiveNumber);
  return bench::run_program(app, argc, argv, [&] {
    set_strict(true);
    for (Device device : bench::chosen_devices(names)) {
      const bool small = device.is_cpu() || bench::is_software(device);
      measure(device, n > 0 ? n : small ? 1 << 20 : 1 << 24, rows > 0 ? rows : small ? 256 : 4096, small ? 3 : 20);
    }
  });
}
