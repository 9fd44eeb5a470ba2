#include <chrono>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/device/kernel.h>
#include <etna/tensor/ops.h>

#include "devices.h"

/// Measures what an eager op costs besides its arithmetic: shape inference, allocation, queueing.
using namespace etna;

namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Counters {
  std::uint64_t misses = 0;
  gpu::QueueStats queue;
};

Counters counters(Device device) {
  return {memory_stats(device).misses, device.is_vulkan() ? gpu::queue_stats(device) : gpu::QueueStats{}};
}

/// Runs `work` (of `ops` ops) three times to warm up, then `repeats` times, and prints the fastest run.
void measure(const char* name, Device device, std::int64_t ops, std::int64_t repeats,
             const std::function<void()>& work) {
  for (int i = 0; i < 3; ++i) work();
  synchronize(device);
  const Counters before = counters(device);
  double queued = 0, total = 0;
  for (std::int64_t i = 0; i < repeats; ++i) {
    auto start = Clock::now();
    work();
    const double until_queued = us_since(start);
    synchronize(device);
    const double until_done = us_since(start);
    if (i == 0 || until_done < total) queued = until_queued, total = until_done;
  }
  const Counters after = counters(device);
  const auto n = static_cast<double>(ops), runs = static_cast<double>(repeats);
  auto a_run = [&](std::uint64_t from, std::uint64_t to) { return static_cast<double>(to - from) / runs; };
  fmt::print("{:<10} {:<12} {:>8} {:>12.3f} {:>12.3f} {:>8} {:>11.0f} {:>9.0f} {:>8.1f}\n", device.str(), name, ops,
             queued / n, total / n, after.misses - before.misses,
             a_run(before.queue.dispatches, after.queue.dispatches), a_run(before.queue.barriers, after.queue.barriers),
             a_run(before.queue.submits, after.queue.submits));
}

void measure_all(Device device, std::int64_t ops, std::int64_t elements, std::int64_t repeats) {
  const Tensor a = zeros({elements}, {f32, device}), b = ones({elements}, {f32, device});
  measure("chained", device, ops, repeats, [&] {
    NoGrad no_grad;
    Tensor y = a;
    for (std::int64_t i = 0; i < ops; ++i) y = add(y, b);
  });
  measure("independent", device, ops, repeats, [&] {
    NoGrad no_grad;
    std::vector<Tensor> kept;  // keeps results alive: the next op would reuse a freed result's memory and have to wait
    for (std::int64_t i = 0; i < ops; ++i) kept.push_back(add(a, b));
  });
  const Tensor x = zeros({elements}, {f32, device}).requires_grad_();
  measure("taped", device, ops, repeats, [&] {
    Tensor y = x;
    for (std::int64_t i = 0; i < ops; ++i) y = add(y, b);
  });
  const Tensor ones_x = ones({elements}, {f32, device});
  measure("and_back", device, 2 * ops, repeats, [&] {
    Tensor y = x;
    for (std::int64_t i = 0; i < ops; ++i) y = mul(y, b);
    const Tensor outputs[] = {y}, inputs[] = {x}, grads[] = {ones_x};
    autograd::grad(outputs, inputs, grads);
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times small adds: what an eager op costs the host, and until it is done."};
  app.footer(
      "chained: each add takes the last one's result. independent: none does, and all are kept. taped: chained, "
      "recorded for backward;\n"
      "and_back: chained products and their gradients, two ops each. misses: allocations that went to the system.");
  std::vector<std::string> device_names;
  std::int64_t ops = 1000, elements = 256, repeats = 10;
  bench::add_device_option(app, device_names);
  app.add_option("--ops", ops, "a run")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--elements", elements, "of each tensor")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--repeats", repeats, "runs; the fastest counts")->check(CLI::PositiveNumber)->capture_default_str();
  return bench::run_program(app, argc, argv, [&] {
    set_strict(true);
    const std::vector<Device> devices = bench::chosen_devices(device_names);
    fmt::print("{:<10} {:<12} {:>8} {:>12} {:>12} {:>8} {:>11} {:>9} {:>8}\n", "device", "case", "ops", "host us/op",
               "total us/op", "misses", "dispatches", "barriers", "submits");
    for (Device device : devices) measure_all(device, ops, elements, repeats);
  });
}
