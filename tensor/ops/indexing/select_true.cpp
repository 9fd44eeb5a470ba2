#include <etna/tensor/ops/indexing/internal/select_true.h>

#include <array>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// Each tile of the mask is counted, and later placed, on its own, given the number of true elements before it.
namespace etna::indexing {
namespace {

constexpr std::int64_t kSelectTrueTile = 4096;
std::int64_t tiles_of(const Tensor& mask) { return (mask.numel() + kSelectTrueTile - 1) / kSelectTrueTile; }

// ---- count_true

std::vector<OutputSpec> count_true_infer(const OpCall& call) {
  return {{Shape{tiles_of(call.in[0])}, i32}, {Shape{1}, i32}};
}

void count_true_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor mask = call.in[0].contiguous();
  const std::int64_t n = mask.numel(), tiles = tiles_of(mask);
  const auto* truth = reinterpret_cast<const std::uint8_t*>(mask.host<bool>());
  auto* before = out[0].host<std::int32_t>();
  cpu::parallel_for(tiles, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      std::int32_t count = 0;
      for (std::int64_t i = t * kSelectTrueTile; i < std::min(n, (t + 1) * kSelectTrueTile); ++i)
        count += truth[i] != 0 ? 1 : 0;
      before[t] = count;
    }
  });
  std::int32_t sum = 0;
  for (std::int64_t t = 0; t < tiles; ++t) sum += std::exchange(before[t], sum);
  *out[1].host<std::int32_t>() = sum;
}

bool count_true_gpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor mask = call.in[0].contiguous();
  const std::int64_t tiles = tiles_of(mask);
  if (tiles == 0) {
    out[1].zero_();
    return true;
  }
  gpu::Kernel(shaders::count_true, call)
      .spec(mask.address() % 16 == 0)
      .read(mask)
      .write(out[0])
      .u32(mask.numel(), tiles)
      .dispatch(gpu::grid(tiles));
  gpu::Kernel(shaders::radix_offsets, call).read_write(out[0]).write(out[1]).u32(1, tiles).dispatch(1);
  return true;
}

const OpDef kCount = {.name = "count_true", .infer = count_true_infer, .cpu = count_true_cpu, .gpu = count_true_gpu};

// ---- places_of_true and masked_select

struct CountAttrs {
  std::int64_t count;
};

/// Calls body(place, position) for every true element; both increase within a tile.
template <typename Body>
void for_each_true(const Tensor& given, const Tensor& before, const Body& body) {
  const Tensor mask = given.contiguous();
  const auto* truth = reinterpret_cast<const std::uint8_t*>(mask.host<bool>());
  const auto* starts = before.host<std::int32_t>();
  const std::int64_t n = mask.numel();
  cpu::parallel_for(tiles_of(mask), 4, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int32_t, kSelectTrueTile + 1> found;
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t first = t * kSelectTrueTile, count = std::min(kSelectTrueTile, n - first);
      std::int64_t hits = 0;
      // Branch-free: a branch on a random mask would be mispredicted half of the time.
      for (std::int64_t i = 0; i < count; ++i) {
        found[static_cast<std::size_t>(hits)] = static_cast<std::int32_t>(i);
        hits += truth[first + i] != 0 ? 1 : 0;
      }
      for (std::int64_t i = 0; i < hits; ++i) body(starts[t] + i, first + found[static_cast<std::size_t>(i)]);
    }
  });
}

/// @param x undefined: writes places
void select_on_gpu(const OpCall& call, const Tensor& x, const Tensor& given, const Tensor& before, const Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor mask = given.contiguous();
  gpu::Kernel(shaders::select_true, call)
      .spec(mask.address() % 16 == 0, x.defined() ? item_size(x.dtype()) : 0)
      .read(mask)
      .read(before)
      .read(x)
      .write(y)
      .u32(mask.numel(), tiles_of(mask))
      .dispatch(gpu::grid(tiles_of(mask)));
}

std::vector<OutputSpec> places_of_true_infer(const OpCall& call) { return {{Shape{call.as<CountAttrs>().count}, i32}}; }
void places_of_true_cpu(const OpCall& call, std::span<Tensor> out) {
  auto* y = out[0].host<std::int32_t>();
  for_each_true(call.in[0], call.in[1],
                [&](std::int64_t place, std::int64_t at) { y[place] = static_cast<std::int32_t>(at); });
}
bool places_of_true_gpu(const OpCall& call, std::span<Tensor> out) {
  select_on_gpu(call, {}, call.in[0], call.in[1], out[0]);
  return true;
}
const OpDef kPlaces = {
    .name = "places_of_true", .infer = places_of_true_infer, .cpu = places_of_true_cpu, .gpu = places_of_true_gpu};

std::vector<OutputSpec> masked_select_infer(const OpCall& call) {
  return {{Shape{call.as<CountAttrs>().count}, call.in[0].dtype()}};
}
void masked_select_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor list = call.in[0].contiguous();
  visit(out[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = list.host<T>();
    T* y = out[0].host<T>();
    for_each_true(call.in[1], call.in[2], [&](std::int64_t place, std::int64_t at) { y[place] = x[at]; });
  });
}
bool masked_select_gpu(const OpCall& call, std::span<Tensor> out) {
  select_on_gpu(call, call.in[0].contiguous(), call.in[1], call.in[2], out[0]);
  return true;
}
TensorList masked_select_vjp(const VjpCall& call) {
  const Tensor& g = call.grad[0];
  return {masked_scatter(zeros(call.in[1].shape(), {g.dtype(), g.device()}), call.in[1], g), Tensor(), Tensor()};
}
const OpDef kSelect = {.name = "masked_select",
                       .infer = masked_select_infer,
                       .cpu = masked_select_cpu,
                       .gpu = masked_select_gpu,
                       .vjp = masked_select_vjp,
                       .saved = Saved::inputs,
                       .saved_inputs = 0b010};

// ---- unravel

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

TrueCounts count_true(const Tensor& mask) {
  TensorList out = apply(kCount, {mask});
  return {out[0], out[1]};
}

Tensor places_of_true(const Tensor& mask, const TrueCounts& counts, std::int64_t count) {
  return apply1(kPlaces, {mask, counts.before}, Attrs::of(CountAttrs{count}));
}

Tensor elements_at_true(const Tensor& x, const Tensor& mask, const TrueCounts& counts, std::int64_t count) {
  return apply1(kSelect, {x, mask, counts.before}, Attrs::of(CountAttrs{count}));
}

namespace {

constexpr const char* kWhyNotCaptured = "the result has as many elements as are true, which the host must read";

/// The mask's elements as a list of at most 2^31 elements.
Tensor flags_of(const char* op, const Tensor& mask) {
  capture_hooks::forbid(op, kWhyNotCaptured);
  if (mask.numel() > std::int64_t{0x7fffffff}) {
    throw ShapeError(fmt::format("{}: a mask of {} elements; at most 2^31 - 1 are counted", op, mask.numel()));
  }
  return mask.reshape({mask.numel()});
}

}  // namespace

Tensor true_places(const char* op, const Tensor& mask) {
  const Tensor flags = flags_of(op, mask);
  const TrueCounts counts = count_true(flags);
  return places_of_true(flags, counts, counts.total.item<std::int64_t>());
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

void select_true_check_mask(const char* op, const Tensor& mask) {
  if (mask.dtype() != boolean)
    throw DtypeError(fmt::format("{}: the mask is {}, it must be bool; compare, as in x > 0", op, name(mask.dtype())));
}

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  detail::require_defined("masked_select", x, mask);
  select_true_check_mask("masked_select", mask);
  const Shape shape = broadcast(x.shape(), mask.shape(), "masked_select");
  const Tensor flags = indexing::flags_of("masked_select", mask.expand(shape));
  const indexing::TrueCounts counts = indexing::count_true(flags);
  const Tensor list = x.expand(shape).reshape({flags.numel()});
  return indexing::elements_at_true(list, flags, counts, counts.total.item<std::int64_t>());
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  detail::require_defined("masked_scatter", x, mask, source);
  select_true_check_mask("masked_scatter", mask);
  if (source.dtype() != x.dtype()) {
    throw DtypeError(fmt::format("masked_scatter: elements of {} go into {}; both must be of one dtype",
                                 name(source.dtype()), name(x.dtype())));
  }
  const Shape shape = broadcast(x.shape(), mask.shape(), "masked_scatter");
  if (shape.rank() == 0) return masked_scatter(x.reshape({1}), mask.reshape({1}), source).reshape({});
  const Tensor list = source.numel() > 0 ? source.reshape({source.numel()}) : zeros({1}, {x.dtype(), x.device()});
  const Tensor flags = mask.expand(shape).reshape({numel(shape)});
  if (flags.numel() == 0) return x.expand(shape).clone();
  // True elements count the true elements before them; the others read any element and ignore it.
  const Tensor rank = where(flags, cumsum(flags, 0) - 1.0, 0.0);
  return where(flags.reshape(shape), index_select(list, 0, rank).reshape(shape), x);
}

std::span<const OpDef* const> ops_in_select_true() {
  static const OpDef* const list[] = {&indexing::kCount, &indexing::kPlaces, &indexing::kSelect, &indexing::kUnravel};
  return list;
}

}  // namespace etna
