#include <etna/tensor/ops/indexing/binned_sums.h>

#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/kernel.h>

namespace etna::indexing {
namespace {

// As in the shader.
constexpr std::int64_t kTile = 4096, kChunk = 65536, kBins = 2048, kMostBuckets = 1024,
                       kPlanWords = 3 * kMostBuckets + 2;

std::int64_t parts(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

Tensor zeros_of(std::int64_t words, Device device) {
  Tensor x = empty({words}, {i32, device});
  x.zero_();
  return x;
}

}  // namespace

bool can_add_in_bins(const Tensor& y, std::int64_t numbers) {
  constexpr std::int64_t kFewest = 16384;  // fewer are sorted in a few microseconds
  return is_floating(y.dtype()) && y.dtype() != f64 && numbers >= kFewest && y.numel() <= kMostBuckets * kBins;
}

void add_in_bins(const OpCall& call, const Tensor& y, const Tensor& places, const Tensor& x) {
  const Device device = y.device();
  const std::int64_t n = places.numel(), tiles = parts(n, kTile), buckets = parts(y.numel(), kBins);
  const bool direct = buckets == 1;
  Tensor plan, pairs;
  if (!direct) {
    plan = zeros_of(kPlanWords, device);
    pairs = empty({2 * n}, {i32, device});
    // A workgroup counts many tiles before it adds its counts to those of all.
    const std::int64_t at_once = 8 * std::int64_t{gpu::capabilities(device).compute_units};
    const std::int64_t groups = std::min(tiles, std::max(at_once, parts(tiles, 1024)));
    gpu::Kernel(shaders::bin_count, call)
        .read(places)
        .read_write(plan)
        .u32(n, tiles, groups)
        .dispatch(gpu::grid(groups));
    gpu::Kernel(shaders::bin_offsets, call).read_write(plan).dispatch(1);
    gpu::Kernel(shaders::bin_move, call)
        .spec(x.dtype())
        .read(places)
        .read(x)
        .read_write(plan)
        .write(pairs)
        .u32(n, tiles)
        .dispatch(gpu::grid(tiles));
  }
  const std::int64_t most_chunks = parts(n, kChunk) + (direct ? 0 : buckets);
  const bool shares = n > kChunk;  // else every bucket has one chunk
  Tensor states, sums;
  if (shares) {
    states = zeros_of(y.numel(), device);
    sums = zeros_of(2 * y.numel(), device);
  }
  auto add = [&](const gpu::Shader& shader) {
    gpu::Kernel(shader, call)
        .spec(y.dtype(), x.dtype(), direct)
        .read(places)
        .read(x)
        .read(pairs)
        .read(plan)
        .read_write(y)
        .read_write(states)
        .read_write(sums)
        .u32(n, y.numel())
        .dispatch(gpu::grid(most_chunks));
  };
  if (shares) add(shaders::bin_exponents);
  add(shaders::bin_sums);
  if (!shares) return;
  gpu::Kernel(shaders::bin_results, call)
      .spec(y.dtype())
      .read_write(y)
      .read(states)
      .read(sums)
      .u32(y.numel())
      .dispatch(gpu::grid(y.numel(), 256));
}

}  // namespace etna::indexing
