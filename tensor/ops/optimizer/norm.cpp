#include <etna/tensor/ops/optimizer/internal/norm.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/device/internal/cpu/scratch.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>

namespace etna::optimizer {
namespace {

/// The larger number; NaN if either is NaN.
double larger(double a, double b) { return a >= b || std::isnan(a) ? a : b; }

double add(double a, double b) { return a + b; }

/// Folds n values into several independent accumulators, to avoid one long chain of additions; then combines them.
template <typename S, typename Fold, typename Combine>
double gather(const S* x, std::int64_t n, Fold fold, Combine combine) {
  constexpr std::int64_t kLanes = 16;
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) sums[k] = fold(sums[k], static_cast<double>(x[i + k]));
  }
  for (; i < n; ++i) sums[0] = fold(sums[0], static_cast<double>(x[i]));
  double total = 0;
  for (double sum : sums) total = combine(total, sum);
  return total;
}

}  // namespace

DType widest(std::span<const Tensor> tensors) {
  bool f64_there = std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.dtype() == f64; });
  return f64_there ? f64 : f32;
}

void require_floating(const OpCall& call, std::span<const Tensor> tensors) {
  for (const Tensor& x : tensors) {
    if (!is_floating(x.dtype()))
      throw DtypeError(fmt::format("{}: a tensor {} holds {}; wanted a floating dtype", call.op.name, str(x.shape()),
                                   name(x.dtype())));
  }
}

double norm_on_cpu(std::span<const Tensor> tensors, double order) {
  Chunks chunks(kNormChunk);
  TensorList list;
  for (const Tensor& x : tensors) {
    list.push_back(x.contiguous());
    chunks.add(x.numel());
  }
  cpu::Scratch<double> partial(static_cast<std::size_t>(chunks.count()));
  chunks.parallel([&](std::int64_t chunk, std::size_t k, std::int64_t begin, std::int64_t end) {
    auto typed = [&](auto zero) {
      using S = decltype(zero);
      alignas(64) S buffer[kNormChunk];
      const S* x = load(list[k], begin, end, buffer);
      std::int64_t n = end - begin;
      partial[static_cast<std::size_t>(chunk)] =
          order == 2 ? gather(
                           x, n, [](double sum, double v) { return sum + v * v; }, add)
          : order == 1 ? gather(
                             x, n, [](double sum, double v) { return sum + std::abs(v); }, add)
                       : gather(
                             x, n, [](double sum, double v) { return larger(sum, std::abs(v)); }, larger);
    };
    if (list[k].dtype() == f64)
      typed(double{});
    else
      typed(float{});
  });
  double total = 0;
  for (double sum : partial) total = order == HUGE_VAL ? larger(total, sum) : add(total, sum);
  return order == 2 ? std::sqrt(total) : total;
}

Tensor composed_norm(std::span<const Tensor> tensors, double order) {
  DType t = widest(tensors);
  Tensor total = zeros({}, {t, tensors[0].device()});
  for (const Tensor& x : tensors) {
    if (order == HUGE_VAL && x.numel() == 0) continue;  // max() of no elements is an error
    Tensor wide = x.to(t);
    if (order == HUGE_VAL)
      total = maximum(total, max(abs(wide)));
    else
      total = total + sum(order == 2 ? square(wide) : abs(wide));
  }
  return order == 2 ? sqrt(total) : total;
}

Rows rows_of(std::span<const Tensor> tensors, Access access) {
  Rows rows(kNormChunk);
  for (const Tensor& x : tensors) rows.add({{x, access}});
  return rows;
}

void add_norm_spec(gpu::Kernel& kernel, const Rows& rows, std::uint32_t order) {
  kernel.spec(rows.common_dtype[0], kNormChunk, rows.width, order);
}

gpu::Kernel norm_total(const OpCall& call, const gpu::Shader& total, Rows& rows, Device device, std::uint32_t order) {
  const Tensor partial = empty({rows.chunks.count(), order == 2 ? 3 : 1}, {f32, device}), none;
  rows.keep(partial);
  gpu::Kernel sums = kernel_over(shaders::global_norm_chunks, call, rows, device);
  add_norm_spec(sums, rows, order);
  sums.write(partial).read(none).read(none).f32(0).dispatch(gpu::grid(rows.chunks.count()));
  gpu::Kernel kernel(total, call);
  add_norm_spec(kernel, rows, order);
  kernel.read(none).u32(rows.count, rows.chunks.count()).read(partial);
  return kernel;
}

}  // namespace etna::optimizer
