#include <etna/tensor/ops/indexing/internal/binned_sums.h>

#include <algorithm>
#include <utility>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/kernel.h>

namespace etna::indexing {
namespace {

// Must equal the shader's.
constexpr std::int64_t kBinnedSumsTile = 4096, kMostBins = 1 << 21;

std::int64_t parts(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

Tensor words(std::int64_t count, Device device) { return empty({count}, {i32, device}); }

struct Binning {
  std::int64_t threads = 256, bits = 11;  ///< a bucket has 2^bits elements

  std::int64_t bins() const { return std::int64_t{1} << bits; }
  std::int64_t chunk() const { return 32 * bins(); }
  std::int64_t plan_words() const { return 2 * (kMostBins >> bits) + 2; }
};

/// Larger buckets where their sums fit.
Binning binning_of(Device device) {
  constexpr std::int64_t kLargeBytes = 46 * 1024;  // of bin_sums
  const auto& can = gpu::capabilities(device);
  const std::int64_t most_threads = std::min(can.max_workgroup_size, can.max_subgroups * can.subgroup_size);
  const bool large = can.subgroup_arithmetic && can.subgroup_size >= 8 && most_threads >= 512 &&
                     can.shared_memory_bytes >= kLargeBytes;
  return large ? Binning{512, 12} : Binning{};
}

}  // namespace

bool can_add_in_bins(const Tensor& y, std::int64_t numbers) {
  constexpr std::int64_t kFewest = 16384;  // fewer are sorted in a few microseconds
  const bool summed = is_floating(y.dtype()) && y.dtype() != f64;
  return summed && numbers >= kFewest && y.numel() <= kMostBins;
}

bool can_check_in_bins(const Tensor& y, std::int64_t numbers) {
  return can_add_in_bins(y, numbers) && y.numel() > binning_of(y.device()).bins();
}

namespace {

/// @param index undefined, or to be checked; then `places` is undefined
void add_in_bins(const OpCall& call, const Tensor& y, const Tensor& index, const Tensor& places, const Tensor& x) {
  const Device device = y.device();
  const Binning binning = binning_of(device);
  const std::int64_t n = x.numel(), tiles = parts(n, kBinnedSumsTile), buckets = parts(y.numel(), binning.bins());
  const bool direct = buckets == 1, shares = n > binning.chunk();  // otherwise every bucket has one chunk
  auto kernel = [&](const gpu::Shader& shader) {
    return std::move(gpu::Kernel(shader, call).spec(binning.threads, binning.bits));
  };
  Tensor plan, pairs, runs, states, sums;
  if (shares) {
    states = words(y.numel(), device);
    sums = words(2 * y.numel(), device);
  }
  if (direct && shares) {
    states.zero_();
    sums.zero_();
  }
  if (!direct) {
    plan = words(binning.plan_words(), device).zero_();
    pairs = words(2 * n, device);
    runs = words(checked_product(tiles, buckets, call.op.name), device);
    gpu::Kernel sort = kernel(index.defined() ? shaders::bin_sort_index : shaders::bin_sort);
    sort.spec(x.dtype());
    if (index.defined()) {
      sort.spec(index.dtype()).read(index).index_errors();
    } else {
      sort.read(places);
    }
    sort.read(x).write(pairs).write(runs).read_write(plan).u32(n, tiles, buckets);
    if (index.defined()) sort.u32(y.numel());
    sort.dispatch(gpu::grid(tiles));
    kernel(shaders::bin_plan).read_write(plan).write(states).write(sums).u32(buckets, y.numel()).dispatch(1);
  }
  const std::int64_t most_chunks = parts(n, binning.chunk()) + (direct ? 0 : buckets);
  auto add = [&](const gpu::Shader& shader) {
    kernel(shader)
        .spec(y.dtype(), x.dtype(), direct)
        .read(places)
        .read(x)
        .read(pairs)
        .read(runs)
        .read(plan)
        .read_write(y)
        .read_write(states)
        .read_write(sums)
        .u32(n, y.numel(), tiles, buckets)
        .dispatch(gpu::grid(most_chunks));
  };
  if (shares) add(shaders::bin_exponents);
  add(shaders::bin_sums);
  if (!shares) return;
  kernel(shaders::bin_results)
      .spec(y.dtype())
      .read(plan)
      .read_write(y)
      .read(states)
      .read(sums)
      .u32(y.numel())
      .dispatch(gpu::grid(buckets));
}

}  // namespace

void add_in_bins(const OpCall& call, const Tensor& y, const Tensor& places, const Tensor& x) {
  add_in_bins(call, y, {}, places, x);
}
void check_and_add_in_bins(const OpCall& call, const Tensor& y, const Tensor& index, const Tensor& x) {
  add_in_bins(call, y, index, {}, x);
}

}  // namespace etna::indexing
