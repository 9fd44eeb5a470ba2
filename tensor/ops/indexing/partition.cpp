#include <etna/tensor/ops/indexing/partition.h>

#include <array>
#include <numeric>

#include <fmt/format.h>

#include <etna/device/cpu/parallel.h>
#include <etna/device/cpu/scratch.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/indexing.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/put.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/recording.h>

// Work whose result has as many elements as are true: counted and placed on the device, with one number read on the
// host in between.
namespace etna::indexing {
namespace {

constexpr std::int64_t kTile = 4096;

std::vector<OutputSpec> partition_infer(const OpCall& call) {
  return {{Shape{call.in[0].numel()}, i32}, {Shape{1}, i32}};
}

void partition_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor mask = call.in[0].contiguous();
  const std::int64_t n = mask.numel(), tiles = (n + kTile - 1) / kTile;
  const bool* truth = mask.host<bool>();
  auto* places = out[0].host<std::int32_t>();
  cpu::Scratch<std::int64_t> before(static_cast<std::size_t>(tiles) + 1, 0);
  cpu::parallel_for(tiles, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      std::int32_t count = 0;
      for (std::int64_t i = t * kTile; i < std::min(n, (t + 1) * kTile); ++i) count += truth[i] ? 1 : 0;
      before[static_cast<std::size_t>(t) + 1] = count;
    }
  });
  std::partial_sum(before.begin(), before.end(), before.begin());
  const std::int64_t total = before.back();
  cpu::parallel_for(tiles, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      std::int64_t yes = before[static_cast<std::size_t>(t)], no = total + t * kTile - yes;
      for (std::int64_t i = t * kTile; i < std::min(n, (t + 1) * kTile); ++i) {
        // Without a branch: a random mask would mispredict every other one.
        const bool hit = truth[i];
        places[hit ? yes : no] = static_cast<std::int32_t>(i);
        yes += hit ? 1 : 0;
        no += hit ? 0 : 1;
      }
    }
  });
  *out[1].host<std::int32_t>() = static_cast<std::int32_t>(total);
}

bool partition_gpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor mask = call.in[0].contiguous(), unused;
  const std::int64_t n = mask.numel(), tiles = (n + kTile - 1) / kTile;
  if (n == 0) {
    out[1].zero_();
    return true;
  }
  const Tensor counts = empty({tiles}, {i32, mask.device()});
  gpu::Kernel(shaders::partition_count, call)
      .read(mask)
      .write(counts)
      .read(unused)
      .read(unused)
      .u32(n, tiles)
      .dispatch(gpu::grid(tiles));
  gpu::Kernel(shaders::radix_offsets, call).read_write(counts).write(out[1]).u32(1, tiles).dispatch(1);
  gpu::Kernel(shaders::partition_place, call)
      .read(mask)
      .read(counts)
      .write(out[0])
      .read(out[1])
      .u32(n, tiles)
      .dispatch(gpu::grid(tiles));
  return true;
}

const OpDef kPartition = {.name = "partition", .infer = partition_infer, .cpu = partition_cpu, .gpu = partition_gpu};

struct UnravelAttrs {
  Shape shape;
};

std::vector<OutputSpec> unravel_infer(const OpCall& call) {
  return {{Shape{call.in[0].numel(), call.as<UnravelAttrs>().shape.rank()}, i64}};
}

void unravel_cpu(const OpCall& call, std::span<Tensor> out) {
  const Shape shape = call.as<UnravelAttrs>().shape;
  const Tensor places = call.in[0].contiguous();
  const auto* from = places.host<std::int32_t>();
  auto* to = out[0].host<std::int64_t>();
  const int rank = shape.rank();
  cpu::parallel_for(places.numel(), 8192, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t rest = from[i];
      for (int d = rank - 1; d >= 0; --d) {
        to[i * rank + d] = rest % shape[d];
        rest /= shape[d];
      }
    }
  });
}

bool unravel_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return true;
  const Shape shape = call.as<UnravelAttrs>().shape;
  std::array<std::uint32_t, 8> sizes = {};
  for (int d = 0; d < shape.rank(); ++d) sizes[static_cast<std::size_t>(d)] = gpu::u32(shape[d]);
  const Tensor places = call.in[0].contiguous();
  gpu::Kernel(shaders::unravel, call)
      .spec(shape.rank())
      .read(places)
      .write(out[0])
      .u32(places.numel())
      .u32(sizes)
      .dispatch(gpu::grid(places.numel(), 256));
  return true;
}

const OpDef kUnravel = {.name = "unravel", .infer = unravel_infer, .cpu = unravel_cpu, .gpu = unravel_gpu};

}  // namespace

Partition partition(const Tensor& mask) {
  TensorList out = apply(kPartition, {mask});
  return {out[0], out[1]};
}

Tensor true_places(const char* op, const Tensor& mask) {
  recording::forbid(op, "the result has as many elements as are true, which the host must read");
  const Partition p = partition(mask.reshape({mask.numel()}));
  return p.places.slice(0, 0, p.count.item<std::int64_t>());
}

Tensor unravel(const Tensor& places, const Shape& shape) {
  return apply1(kUnravel, {places}, Attrs::of(UnravelAttrs{shape}));
}

}  // namespace etna::indexing

namespace etna {

Tensor nonzero(const Tensor& x) {
  detail::require_defined("nonzero", x);
  return indexing::unravel(indexing::true_places("nonzero", x.dtype() == boolean ? x : ne(x, 0.0)), x.shape());
}

namespace {

void check_mask(const char* op, const Tensor& mask) {
  if (mask.dtype() != boolean)
    throw DtypeError(fmt::format("{}: the mask is {}, it must be bool; compare, as in x > 0", op, name(mask.dtype())));
}

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  detail::require_defined("masked_select", x, mask);
  check_mask("masked_select", mask);
  const Shape shape = broadcast(x.shape(), mask.shape(), "masked_select");
  const Tensor places = indexing::true_places("masked_select", mask.expand(shape));
  const Tensor table = x.expand(shape).reshape({numel(shape), 1});
  return indexing::take_distinct(table, places).reshape({places.numel()});
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  detail::require_defined("masked_scatter", x, mask, source);
  check_mask("masked_scatter", mask);
  if (source.dtype() != x.dtype()) {
    throw DtypeError(fmt::format("masked_scatter: elements of {} go into {}; both must be of one dtype",
                                 name(source.dtype()), name(x.dtype())));
  }
  const Shape shape = broadcast(x.shape(), mask.shape(), "masked_scatter");
  if (shape.rank() == 0) return masked_scatter(x.reshape({1}), mask.reshape({1}), source).reshape({});
  const Tensor list = source.numel() > 0 ? source.reshape({source.numel()}) : zeros({1}, {x.dtype(), x.device()});
  const Tensor flags = mask.expand(shape).reshape({numel(shape)});
  if (flags.numel() == 0) return x.expand(shape).clone();
  // True elements count those before them; the others read any element and do not use it.
  const Tensor rank = where(flags, cumsum(flags, 0) - 1.0, 0.0);
  return where(flags.reshape(shape), index_select(list, 0, rank).reshape(shape), x);
}

std::span<const OpDef* const> ops_in_partition() {
  static const OpDef* const list[] = {&indexing::kPartition, &indexing::kUnravel};
  return list;
}

}  // namespace etna
