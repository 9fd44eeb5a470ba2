#include <algorithm>
#include <bit>
#include <numeric>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/random/random.h>
#include <etna/tensor/ops/sorting/sorting.h>

// The order of random keys, from which permutations and samples without replacement are made.
namespace etna {
namespace {

constexpr std::int64_t kMost = 32768;  ///< every key is compared with every other; more keys than this are sorted

struct LargestFirstAttrs {
  std::int64_t count = 0;
};

std::vector<OutputSpec> largest_first_infer(const OpCall& call) {
  const Tensor& keys = call.in[0];
  if (keys.dtype() != f32 && keys.dtype() != f64 && keys.dtype() != i64) {
    throw DtypeError(fmt::format("largest_first: keys are {}, they must be f32, f64 or i64", name(keys.dtype())));
  }
  const std::int64_t count = call.as<LargestFirstAttrs>().count;
  if (keys.dim() != 2 || count < 0 || count > keys.size(1)) {
    throw ShapeError(
        fmt::format("largest_first: got a count of {} and keys {}; wanted keys [R, K] and a count of at most K", count,
                    str(keys.shape())));
  }
  return {{{keys.size(0), count}, i64}};
}

/// Converts keys to unsigned numbers in the same order.
std::uint64_t largest_first_ordered(std::int64_t key) {
  return static_cast<std::uint64_t>(key) ^ (std::uint64_t{1} << 63);
}
std::uint64_t largest_first_ordered(float key) {
  const auto bits = std::bit_cast<std::uint32_t>(key);
  return (bits & 0x7fffffffu) > 0x7f800000u ? ~0u : (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

std::uint64_t largest_first_ordered(double key) {
  const auto bits = std::bit_cast<std::uint64_t>(key);
  if (key != key) return ~std::uint64_t{0};
  return (bits >> 63) != 0 ? ~bits : bits | std::uint64_t{1} << 63;
}

void largest_first_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor keys = call.in[0].contiguous();
  const std::int64_t rows = keys.size(0), n = keys.size(1), count = call.as<LargestFirstAttrs>().count;
  if (count == 0) return;
  const auto run = [&](const auto* from) {
    cpu::parallel_for(rows, std::max<std::int64_t>(1, 4096 / n), [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::pair<std::uint64_t, std::int64_t>> row(static_cast<std::size_t>(n));
      for (std::int64_t r = begin; r < end; ++r) {
        for (std::int64_t i = 0; i < n; ++i)
          row[static_cast<std::size_t>(i)] = {~largest_first_ordered(from[r * n + i]), i};
        if (count == n)
          std::sort(row.begin(), row.end());
        else
          std::partial_sort(row.begin(), row.begin() + count, row.end());
        std::int64_t* to = out[0].host<std::int64_t>() + r * count;
        for (std::int64_t i = 0; i < count; ++i) to[i] = row[static_cast<std::size_t>(i)].second;
      }
    });
  };
  if (keys.dtype() == f32)
    run(keys.host<float>());
  else if (keys.dtype() == f64)
    run(keys.host<double>());
  else
    run(keys.host<std::int64_t>());
}

bool largest_first_gpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor keys = call.in[0].contiguous();
  const std::int64_t n = keys.size(1), count = call.as<LargestFirstAttrs>().count;
  const std::uint32_t most = gpu::capabilities(keys.device()).most_iterations;
  if (keys.dtype() == f64 || n > kMost || (most != 0 && n + n / 256 > most)) return false;
  if (out[0].numel() == 0) return true;
  gpu::Kernel(shaders::largest_first, call)
      .spec(keys.dtype())
      .read(keys)
      .write(out[0])
      .u32(keys.size(0), n, count)
      .dispatch(gpu::grid(checked_product(keys.size(0), (n + 255) / 256, "largest_first")));
  return true;
}

const OpDef kLargestFirst = {
    .name = "largest_first", .infer = largest_first_infer, .cpu = largest_first_cpu, .gpu = largest_first_gpu};

}  // namespace

Tensor detail::largest_first(const Tensor& keys, std::int64_t count) {
  // topk() sorts in the same order: NaN is the largest, equal keys stay in order.
  if (!keys.device().is_cpu() && keys.dtype() != f64 && keys.dim() == 2 && keys.size(1) > kMost)
    return topk(keys, count, 1).indices;
  return apply1(kLargestFirst, {keys}, Attrs::of(LargestFirstAttrs{count}));
}

std::span<const OpDef* const> ops_in_largest_first() {
  static const OpDef* const list[] = {&kLargestFirst};
  return list;
}

}  // namespace etna
