#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/device/memory.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/convolution.h>

#include "devices.h"

/// Times the convolutions of ResNet-18 (He et al. 2016), forward and with both gradients, as replays of captured steps.
using namespace etna;

namespace {

using Clock = std::chrono::steady_clock;

struct Layer {
  std::int64_t in, out, kernel, stride, size, groups = 1;
};
constexpr Layer kLayers[] = {{3, 64, 7, 2, 224},   {64, 64, 3, 1, 56},    {64, 128, 3, 2, 56},  {128, 128, 3, 1, 28},
                             {128, 256, 3, 2, 28}, {256, 256, 3, 1, 14},  {256, 512, 3, 2, 14}, {512, 512, 3, 1, 7},
                             {64, 128, 1, 2, 56},  {64, 64, 3, 1, 56, 64}};

/// Calls in a captured step; on a GPU each waits for the one before, as in a training step.
constexpr std::int64_t kRepeats = 8;

/// Milliseconds of a call: the median of five rounds of `calls`.
double milliseconds(Device device, std::int64_t calls, const std::function<void()>& call) {
  for (int i = 0; i < 3; ++i) call();
  synchronize(device);
  std::vector<double> rounds;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) call();
    synchronize(device);
    rounds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count() /
                     static_cast<double>(calls));
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[2];
}

/// What a convolution's result costs the next op: relu of a channels-last view, against one of a contiguous tensor.
void time_relu(Device device, std::int64_t batch, DType t, std::int64_t calls) {
  for (bool channels_last : {false, true}) {
    Tensor x = randn({batch, 64, 56, 56}, {f32, device}).to(t);
    if (channels_last) x = x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
    auto step = capture(
        [=] {
          NoGrad off;
          for (std::int64_t i = 0; i < kRepeats; ++i) relu(x);
        },
        {.device = device, .one_by_one = true});
    const double ms = milliseconds(device, calls, [&] { step(); }) / static_cast<double>(kRepeats);
    fmt::print("{:<10} b{} relu of 64 channels at 56x56 {:<5} {:<13} {:.4f} ms\n", device.str(), batch, name(t),
               channels_last ? "channels-last" : "contiguous", ms);
  }
}

void time_layer(Device device, const Layer& l, std::int64_t batch, DType t, bool channels_last, std::int64_t calls) {
  const std::int64_t padding = l.kernel / 2, size = (l.size + 2 * padding - l.kernel) / l.stride + 1;
  auto image = [&](std::int64_t channels, std::int64_t side) {
    if (!channels_last) return randn({batch, channels, side, side}, {f32, device}).to(t);
    return randn({batch, side, side, channels}, {f32, device}).to(t).permute({0, 3, 1, 2});
  };
  const Tensor data = image(l.in, l.size), g = image(l.out, size);
  const Tensor x = data.detach().requires_grad_();
  Tensor weight = randn({l.out, l.in / l.groups, l.kernel, l.kernel}, {f32, device}).to(t);
  if (channels_last) weight = weight.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  weight.requires_grad_();
  const std::int64_t repeats = device.is_cpu() ? 1 : kRepeats;
  auto repeated = [&](auto body) {
    auto step = capture(
        [=] {
          for (std::int64_t i = 0; i < repeats; ++i) body();
        },
        {.device = device, .one_by_one = true});
    return milliseconds(device, calls, [&] { step(); }) / static_cast<double>(repeats);
  };
  const double a = repeated([=] {
    NoGrad off;
    conv2d(x, weight, {}, l.stride, padding, 1, l.groups);
  });
  const double b = repeated([=] {
    const Tensor y = conv2d(x, weight, {}, l.stride, padding, 1, l.groups);
    autograd::grad(TensorList{y}, TensorList{x, weight}, TensorList{g});
  });
  const double flops = 2.0 * static_cast<double>(batch * l.out * size * size * (l.in / l.groups) * l.kernel * l.kernel);
  fmt::print("{:<10} b{} {:>3} -> {:<3} k{} s{} {:>3}x{:<3}{:<10} {:<5} {:<13} {:>9.4f} {:>9.4f} {:>8.1f} {:>8.1f}\n",
             device.str(), batch, l.in, l.out, l.kernel, l.stride, l.size, l.size, l.groups > 1 ? " depthwise" : "",
             name(t), channels_last ? "channels-last" : "contiguous", a, b, flops / a * 1e-9, 3 * flops / b * 1e-9);
  std::fflush(stdout);
}

/// The largest difference from the CPU's f64 results, against their largest value: of y and both gradients.
void check_layer(Device device, const Layer& l, std::int64_t batch, DType t) {
  const std::int64_t padding = l.kernel / 2;
  const Tensor data = randn({batch, l.in, l.size, l.size}).to(t),
               filter = randn({l.out, l.in / l.groups, l.kernel, l.kernel}).to(t);
  auto run = [&](Device d, DType dtype) {
    const Tensor x = data.to(d, dtype).requires_grad_(), weight = filter.to(d, dtype).requires_grad_();
    const Tensor y = conv2d(x, weight, {}, l.stride, padding, 1, l.groups);
    manual_seed(5);
    const Tensor g = randn(y.shape()).to(t).to(d, dtype);
    TensorList all = autograd::grad(TensorList{y}, TensorList{x, weight}, TensorList{g});
    all.insert(all.begin(), y.detach());
    return all;
  };
  const TensorList wanted = run(kCPU, f64), got = run(device, t);
  fmt::print("{} -> {} k{} s{} {}x{} {}:", l.in, l.out, l.kernel, l.stride, l.size, l.size, name(t));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double error = max(abs(got[i].to(kCPU).to(f64) - wanted[i])).item<double>();
    fmt::print(" {:.2e}", error / max(abs(wanted[i])).item<double>());
  }
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Times ResNet-18's convolutions: forward, and forward with the gradients of input and weight."};
  std::vector<std::string> device_names, dtypes = {"f32", "bf16"};
  std::int64_t batch = 64, calls = 20;
  bool contiguous = false, check = false;
  bench::add_device_option(app, device_names);
  app.add_option("--batch", batch, "images")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--calls", calls, "between two waits")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--dtypes", dtypes, "several by commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  app.add_flag("--contiguous", contiguous, "time contiguous inputs, too, not only channels-last ones");
  app.add_flag("--check", check, "print relative errors of y and the gradients instead of times");
  return bench::run_program(app, argc, argv, [&] {
    set_strict(true);
    for (Device device : bench::chosen_devices(device_names)) {
      fmt::print("{:<10} {:<45} {:<13} {:>9} {:>9} {:>8} {:>8}\n", "device", "layer", "layout", "ms", "ms both",
                 "TFLOP/s", "both");
      for (const std::string& dtype : dtypes) {
        const DType t = dtype == "f32" ? f32 : dtype == "f16" ? f16 : bf16;
        for (const Layer& layer : kLayers) {
          if (check) {
            check_layer(device, layer, batch, t);
            continue;
          }
          time_layer(device, layer, batch, t, true, calls);
          if (contiguous) time_layer(device, layer, batch, t, false, calls);
        }
        if (!check) time_relu(device, batch, t, calls);
      }
    }
  });
}
