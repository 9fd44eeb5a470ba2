#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/core.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/tuned.h>

#include "commands.h"

namespace etna::cli {
namespace {

struct TuneOptions {
  std::string device;  ///< in the form select_device() takes
  std::vector<std::string> dtypes = {"bf16", "f32"};
  bool quick = false;
};

using gemm::KernelConfig;
using gemm::KernelVariant;

/// The three gemms of a linear layer: x·Wᵀ, dy·W and dyᵀ·x.
enum class Layout { forward, dx, dw };

struct Shape3 {
  Layout layout;
  std::int64_t m, n, k;
};

/// The layers of transformers of a few common sizes: forward and both gradients.
std::vector<Shape3> usual_shapes() {
  std::vector<Shape3> shapes;
  auto layer = [&](std::int64_t rows, std::int64_t in, std::int64_t out) {
    shapes.push_back({Layout::forward, rows, out, in});
    shapes.push_back({Layout::dx, rows, in, out});
    shapes.push_back({Layout::dw, out, in, rows});
  };
  for (auto [rows, dim] : {std::pair{1024, 128}, {8192, 512}, {16384, 768}}) {
    layer(rows, dim, 3 * dim);
    layer(rows, dim, dim);
    layer(rows, dim, 4 * dim);
    layer(rows, 4 * dim, dim);
  }
  // Output heads, in the chunks of linear_cross_entropy, which pads its rows of logits to whole vectors.
  for (auto [rows, dim, classes] : {std::tuple{512, 128, 33280}, {1792, 512, 33280}, {1280, 768, 50264}}) {
    layer(rows, dim, classes);
  }
  return shapes;
}

std::vector<KernelConfig> candidates(const Shape3& s, DType dtype) {
  std::vector<KernelConfig> list;
  auto add = [&](KernelVariant variant, std::span<const gemm::Tile> tiles) {
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      for (std::int64_t split_k : {1, 2, 3, 4, 6, 8, 12, 16, 32}) {
        bool useful = split_k == 1 || (s.k / split_k >= 64 && s.m * s.n * split_k <= (std::int64_t{1} << 25));
        std::int64_t groups = (s.m + tiles[t].m - 1) / tiles[t].m * ((s.n + tiles[t].n - 1) / tiles[t].n);
        if (useful && groups * split_k <= 4096 + groups) list.push_back({variant, {t, split_k}});
      }
    }
  };
  bool half = item_size(dtype) == 2;
  for (const gemm::Launcher& l : gemm::launchers()) {
    if (l.variant == KernelVariant::plain && !half) add(l.variant, gemm::plain_tiles());
    if (l.variant == KernelVariant::coopmat && half) add(l.variant, gemm::coopmat_tiles());
    if (l.variant == KernelVariant::cubin) add(l.variant, gemm::cubin_tiles().first(half ? 3 : 1));
  }
  return list;
}

/// Seconds per gemm, from replays of several gemms, so that host time does not count.
double seconds_of(Device device, const std::function<void()>& call, double budget) {
  constexpr int calls = 16;
  call();
  synchronize(device);
  auto program = capture(
      [&] {
        for (int i = 0; i < calls; ++i) call();
      },
      {.device = device, .name = "tune", .one_by_one = true});
  for (int i = 0; i < 3; ++i) program();
  synchronize(device);
  double best = 1e9, spent = 0;
  for (int i = 0; i < 3 || (spent < budget && i < 20); ++i) {
    auto start = std::chrono::steady_clock::now();
    program();
    synchronize(device);
    double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, took / calls), spent += took;
  }
  return best;
}

struct Best {
  KernelConfig config;
  double seconds = 1e9, untuned = 0;
  std::optional<gemm::ShapeClass> of;
};

Best tune_shape(Device device, DType dtype, const Shape3& s, double budget) {
  NoGrad off;
  auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return randn({rows, columns}, {f32, device}).to(dtype);
  };
  bool dw = s.layout == Layout::dw;
  Tensor a = dw ? matrix(s.k, s.m).t() : matrix(s.m, s.k);
  Tensor b = s.layout == Layout::forward ? matrix(s.n, s.k).t() : matrix(s.k, s.n);
  DType out = dw && item_size(dtype) == 2 ? f32 : dtype;
  auto call = [&] { matmul(a, b, out); };
  Best best;
  best.untuned = seconds_of(device, call, budget);
  for (const KernelConfig& config : candidates(s, dtype)) {
    gemm::ForcedConfig forced(config);
    double seconds = seconds_of(device, call, budget);
    if (seconds < best.seconds) best = {config, seconds, best.untuned, forced.last_class()};
  }
  return best;
}

/// Times every tiling on the gemms of common layers and stores the fastest for later runs.
/// @throws DeviceError, FormatError if the table cannot be written
int tune(const TuneOptions& options) {
  Device device = select_device(options.device);
  if (device.is_cpu()) throw DeviceError("tune: gemms are tuned on GPUs; name one, e.g. --device vulkan:0");
  fmt::print("{}: {}\n", device.str(), device_name(device));
  std::vector<Shape3> shapes = usual_shapes();
  if (options.quick) shapes = {{Layout::forward, 64, 48, 96}, {Layout::dw, 48, 32, 128}};
  gemm::TuningTable table;
  for (const std::string& name_of_dtype : options.dtypes) {
    DType dtype = name_of_dtype == "f16" ? f16 : name_of_dtype == "bf16" ? bf16 : f32;
    for (const Shape3& s : shapes) {
      Best best = tune_shape(device, dtype, s, options.quick ? 0 : 0.004);
      static constexpr const char* layouts[] = {"x·Wᵀ", "dy·W", "dyᵀ·x"};
      double flops = 2 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
      fmt::print(
          "{:<5} {:<6} {:>6}x{:<6} k {:<6} {:>9.2f} us  {:>7.1f} TFLOP/s  {} tile {} split_k {}  (before {:.2f} us)\n",
          name(dtype), layouts[static_cast<int>(s.layout)], s.m, s.n, s.k, best.seconds * 1e6,
          flops / best.seconds * 1e-12, gemm::name(best.config.variant), best.config.tiling.tile,
          best.config.tiling.split_k, best.untuned * 1e6);
      std::fflush(stdout);
      if (best.of) table.set(*best.of, best.config);
    }
  }
  gemm::remember(device, table);
  fmt::print("{} kept in {}\n", table.size(), gemm::table_file(device).string());
  return 0;
}

}  // namespace

Command add_tune(CLI::App& app) {
  const auto options = std::make_shared<TuneOptions>();
  CLI::App* tune =
      app.add_subcommand("tune", "Time every way to cut usual matrix products and keep the fastest for later runs");
  tune->add_option("--device", options->device, "vulkan:N or auto (default: auto)");
  tune->add_option("--dtype", options->dtypes, "f32, f16, bf16, several by commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  tune->add_flag("--quick", options->quick, "two small products, to see that it works");
  return {tune, [options] { return cli::tune(*options); }};
}

}  // namespace etna::cli
