#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/cpu_kernels.h>
#include <etna/tensor/quant/quantized_tensor.h>

#include "devices.h"

// quantized_linear by format: generating a token (GB/s of weights, which come from memory: copies of a weight take
// turns until they are beyond any cache) and reading a prompt (GFLOP/s).
using namespace etna;

namespace {

struct Layer {
  std::int64_t rows, columns;
};

/// In a format that is only read, any bytes that make no f16 infinite.
QuantizedTensor some_rows(const quant::BlockFormat& format, std::int64_t columns) {
  if (format.can_quantize()) return quantize(randn({16, columns}) * 0.02, format);
  const auto bytes = static_cast<std::int64_t>(quant::storage_bytes(format, 16 * columns));
  return {format, {16, columns}, randint(0, 64, {bytes}).to(u8)};
}

/// Copies of a weight whose bytes are whatever; a product takes as long with any finite ones.
std::vector<QuantizedTensor> weights_of(const quant::BlockFormat& format, Layer layer, std::size_t bytes,
                                        Device device) {
  const QuantizedTensor one = some_rows(format, layer.columns);
  const Tensor some = one.blocks().slice(0, 0, one.blocks().numel() - static_cast<std::int64_t>(format.tail));
  const Tensor rows = some.reshape({1, -1}).expand({layer.rows / 16, some.numel()}).reshape({-1});
  const Tensor tail = one.blocks().slice(0, some.numel(), one.blocks().numel());
  const Tensor blocks = format.tail == 0 ? rows : cat({rows, tail}, 0);
  const std::size_t count = std::max<std::size_t>(1, bytes / static_cast<std::size_t>(blocks.numel()) + 1);
  std::vector<QuantizedTensor> copies;
  for (std::size_t i = 0; i < count; ++i) copies.emplace_back(format, Shape{layer.rows, layer.columns}, blocks.clone());
  for (QuantizedTensor& copy : copies) copy = copy.to(device);
  return copies;
}

void time_products(benchmark::State& state, const quant::BlockFormat& format, Layer layer, std::int64_t tokens,
                   DType dtype, Device device) {
  try {
    constexpr std::size_t kBeyondCaches = std::size_t{96} << 20;
    const std::vector<QuantizedTensor> weights = weights_of(format, layer, tokens <= 8 ? kBeyondCaches : 0, device);
    const Tensor x = randn({tokens, layer.columns}).to(device, dtype);
    std::size_t next = 0;
    for (int i = 0; i < 3; ++i) quantized_linear(x, weights[next++ % weights.size()]);
    synchronize(device);
    for (auto _ : state) {
      benchmark::DoNotOptimize(quantized_linear(x, weights[next++ % weights.size()]));
      synchronize(device);
    }
    const auto calls = static_cast<double>(state.iterations()) * 1e-9;
    const double flops = 2.0 * static_cast<double>(tokens * layer.rows * layer.columns);
    if (tokens <= 8) {
      state.counters["GB/s"] =
          benchmark::Counter(static_cast<double>(weights[0].bytes()) * calls, benchmark::Counter::kIsRate);
    }
    state.counters["GFLOP/s"] = benchmark::Counter(flops * calls, benchmark::Counter::kIsRate);
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
  empty_cache(device);
}

constexpr const char* kDefault[] = {"F16", "Q8_0", "Q4_0", "Q4_K", "Q6_K", "TQ2_0"};

}  // namespace

int main(int argc, char** argv) {
  // Separates Google Benchmark's options (--benchmark_filter ...) from ours; --help is left to CLI11.
  std::vector<char*> ours, theirs = {argv[0]};
  for (int i = 0; i < argc; ++i)
    (std::string_view(argv[i]).starts_with("--benchmark_") ? theirs : ours).push_back(argv[i]);
  CLI::App app{"Times products with quantized weights: few rows in GB/s of weights, many in GFLOP/s."};
  app.footer("Google Benchmark's options work too: --benchmark_filter=REGEX, --benchmark_format=json ...");
  std::vector<std::string> device_names, formats(std::begin(kDefault), std::end(kDefault));
  std::vector<std::int64_t> tokens = {1, 4, 128};
  std::string dtype = "f32", kernels;
  double seconds = 0.1;
  bench::add_device_option(app, device_names);
  app.add_option("--format", formats, "block formats, several by commas; 'all' for each")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--tokens", tokens, "rows of x, several by commas")->delimiter(',')->capture_default_str();
  app.add_option("--dtype", dtype, "of x")->check(CLI::IsMember({"f32", "f16", "bf16"}))->capture_default_str();
  app.add_option("--kernels", kernels, "of the CPU: \"AVX-512 VNNI\", AVX2 or portable; the best by default");
  app.add_option("--min-time", seconds, "seconds each product runs at least")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();

  return bench::run_program(app, static_cast<int>(ours.size()), ours.data(), [&] {
    int count = static_cast<int>(theirs.size());
    theirs.push_back(nullptr);
    benchmark::Initialize(&count, theirs.data());
    if (!kernels.empty() && !quantized::use_cpu_kernels(kernels.c_str()))
      throw Error(fmt::format("no kernels '{}' for this processor", kernels));
    if (formats.size() == 1 && formats[0] == "all") {
      formats.clear();
      for (const quant::BlockFormat& f : quant::block_formats())
        if (f.can_quantize() || f.elements > 1) formats.emplace_back(f.name);
    }
    const DType type = dtype == "f16" ? f16 : dtype == "bf16" ? bf16 : f32;
    for (const Device device : bench::chosen_devices(device_names)) {
      benchmark::AddCustomContext(device.str(), device_name(device));
      for (const std::string& name : formats) {
        const quant::BlockFormat& format = quant::format_named(name);
        for (const std::int64_t t : tokens) {
          for (const Layer layer : {Layer{2048, 2048}, Layer{5632, 2048}, Layer{2048, 5632}, Layer{32000, 2048}}) {
            const std::string title =
                fmt::format("{}/{}/{}x{}x{}", device.str(), format.name, t, layer.rows, layer.columns);
            benchmark::RegisterBenchmark(title.c_str(),
                                         [&format, layer, t, type, device](benchmark::State& state) {
                                           time_products(state, format, layer, t, type, device);
                                         })
                ->MinTime(seconds)
                ->UseRealTime()
                ->Unit(benchmark::kMicrosecond);
          }
        }
      }
    }
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
  });
}
