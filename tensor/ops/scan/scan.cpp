#include <utility>

#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/rows/internal/rows.h>
#include <etna/tensor/ops/rows/internal/strided.h>
#include <etna/tensor/ops/scan/internal/accumulate.h>
#include <etna/tensor/ops/scan/internal/long_rows.h>

// cumsum along a dimension, and tril and triu of the last two.
namespace etna {
namespace {

struct ScanAttrs {
  int dim = 0;
  bool reverse = false;
};

std::vector<OutputSpec> cumsum_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  return {{x.shape(), is_floating(x.dtype()) ? x.dtype() : i64}};
}

void cumsum_cpu(const OpCall& call, std::span<Tensor> out) {
  auto a = call.as<ScanAttrs>();
  if (scan::cumsum_long_rows(call.in[0], out[0], a.dim, a.reverse)) return;
  rows::visit_compute(call.in[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
    rows::along<T>(std::array{call.in[0]}, out[0], a.dim, [&](const auto& in, T* y, std::int64_t n) {
      Sum total = 0;
      std::int64_t at = a.reverse ? n - 1 : 0, step = a.reverse ? -1 : 1;
      for (std::int64_t i = 0; i < n; ++i, at += step) y[at] = static_cast<T>(total += static_cast<Sum>(in[0][at]));
    });
  });
}

bool cumsum_gpu(const OpCall& call, std::span<Tensor> out) {
  DType t = out[0].dtype();
  if (t == f64) return false;
  if (out[0].numel() == 0) return true;
  auto a = call.as<ScanAttrs>();
  // A workgroup that owns a longer row would mostly wait for itself.
  constexpr std::int64_t kLong = 2048;
  if (call.in[0].dim() > 0 && call.in[0].shape()[a.dim] > kLong) {
    const Tensor rows = call.in[0].transpose(a.dim, -1);
    const bool last = a.dim == call.in[0].dim() - 1;
    Tensor sums = last ? out[0] : empty(rows.shape(), {t, out[0].device()});
    if (!scan::on_gpu(call, scan::Kind::sum, a.reverse, rows, {}, sums, {})) return false;
    if (!last) out[0].copy_(sums.transpose(a.dim, -1));
    return true;
  }
  rows::Strided x(call.in[0], a.dim), y(out[0], a.dim);
  rows::RowTiling tiling = y.inner > 1      ? rows::RowTiling{1, 0, true}
                           : y.length <= 64 ? rows::RowTiling{32}
                                            : rows::RowTiling{};
  const bool words = t == i64 && !gpu::capabilities(out[0].device()).int64;
  gpu::Kernel(words      ? shaders::scan_pairs
              : t == i64 ? shaders::scan_i64
                         : shaders::scan_float,
              call)
      .spec(tiling.threads_per_row, tiling.columns, a.reverse, x.x.dtype(), t)
      .read(x.x)
      .write(out[0])
      .u32(y.rows, y.length, y.inner)
      .u32(x.strides)
      .u32(y.strides)
      .dispatch(gpu::grid(tiling.groups(y.rows)));
  return true;
}

/// Each element plus the sum of those before it, by doubling.
TensorList cumsum_reference(const OpCall& call) {
  auto a = call.as<ScanAttrs>();
  const Tensor& x = call.in[0];
  Tensor y = is_floating(x.dtype()) ? x.to(x.dtype() == f64 ? f64 : f32) : x.to(i64);
  std::int64_t n = x.dim() == 0 ? 1 : x.shape()[a.dim];
  for (std::int64_t k = 1; k < n; k *= 2) {
    Shape edge = x.shape();
    edge[a.dim] = k;
    Tensor nothing = zeros(edge, {y.dtype(), y.device()});
    TensorList parts = {nothing, y.slice(a.dim, a.reverse ? k : 0, a.reverse ? n : n - k)};
    if (a.reverse) std::swap(parts[0], parts[1]);
    y = y + cat(parts, a.dim);
  }
  return {is_floating(x.dtype()) ? y.to(x.dtype()) : y};
}

TensorList cumsum_vjp(const VjpCall& call) {
  auto a = call.as<ScanAttrs>();
  return {cumsum(call.grad[0], a.dim, !a.reverse)};
}

const OpDef kCumsum = {.name = "cumsum",
                       .infer = cumsum_infer,
                       .cpu = cumsum_cpu,
                       .gpu = cumsum_gpu,
                       .reference = cumsum_reference,
                       .vjp = cumsum_vjp};

struct TriangleAttrs {
  std::int64_t diagonal = 0;
  bool upper = false;
};

std::vector<OutputSpec> triangle_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  if (x.dim() < 2)
    throw ShapeError(fmt::format("{}: x is {}; wanted at least two dimensions", call.op.name, str(x.shape())));
  return {{x.shape(), x.dtype()}};
}

void triangle_cpu(const OpCall& call, std::span<Tensor> out) {
  auto a = call.as<TriangleAttrs>();
  const Tensor& x = call.in[0];
  std::int64_t height = x.size(-2), n = x.size(-1);
  if (x.numel() == 0) return;
  rows::Rows rows(x, x.dim() - 1);
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.host<T>();
    T* to = out[0].host<T>();
    cpu::parallel_for(
        rows.count(), std::max<std::int64_t>(1, rows::kGrain / n), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t r = begin; r < end; ++r) {
            const T* row = from + rows.offset(r);
            T* y = to + r * n;
            // tril keeps columns up to row + diagonal, triu keeps columns from there on.
            std::int64_t edge = std::clamp<std::int64_t>(
                r % height + std::clamp<std::int64_t>(a.diagonal, -height - n, height + n) + (a.upper ? 0 : 1), 0, n);
            for (std::int64_t i = 0; i < edge; ++i) y[i] = a.upper ? T{} : row[i * rows.step];
            for (std::int64_t i = edge; i < n; ++i) y[i] = a.upper ? row[i * rows.step] : T{};
          }
        });
  });
}

bool triangle_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return true;
  auto a = call.as<TriangleAttrs>();
  // Rows along the second-to-last dimension, so that the outer stride steps through matrices and the inner stride
  // through columns.
  rows::Strided x(call.in[0], call.in[0].dim() - 2);
  std::int64_t height = x.length, width = x.inner;
  std::int64_t diagonal = std::clamp<std::int64_t>(a.diagonal, -height - width, height + width);
  gpu::Kernel(shaders::triangle, call)
      .spec(item_size(out[0].dtype()), a.upper)
      .read(x.x)
      .write(out[0])
      .u32(out[0].numel(), height, width)
      .u32(x.strides[0], x.strides[2], x.strides[1], diagonal)
      .dispatch(gpu::grid(out[0].numel(), 1024));
  return true;
}

TensorList triangle_reference(const OpCall& call) {
  auto a = call.as<TriangleAttrs>();
  const Tensor& x = call.in[0];
  Tensor row = arange(0, static_cast<double>(x.size(-2))).to(x.device()).unsqueeze(1);
  Tensor beyond = arange(0, static_cast<double>(x.size(-1))).to(x.device()) - row;
  auto k = static_cast<double>(a.diagonal);
  return {where(a.upper ? ge(beyond, k) : le(beyond, k), x, 0.0)};
}

TensorList triangle_vjp(const VjpCall& call) {
  auto a = call.as<TriangleAttrs>();
  return {a.upper ? triu(call.grad[0], a.diagonal) : tril(call.grad[0], a.diagonal)};
}

const OpDef kTril = {.name = "tril",
                     .infer = triangle_infer,
                     .cpu = triangle_cpu,
                     .gpu = triangle_gpu,
                     .reference = triangle_reference,
                     .vjp = triangle_vjp};
const OpDef kTriu = {.name = "triu",
                     .infer = triangle_infer,
                     .cpu = triangle_cpu,
                     .gpu = triangle_gpu,
                     .reference = triangle_reference,
                     .vjp = triangle_vjp};

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t dim, bool reverse) {
  detail::require_defined("cumsum", x);
  return apply1(kCumsum, {detail::raised(x)}, Attrs::of(ScanAttrs{wrap_dim(dim, x.dim(), "cumsum"), reverse}));
}
Tensor tril(const Tensor& x, std::int64_t diagonal) {
  detail::require_defined("tril", x);
  return apply1(kTril, {x}, Attrs::of(TriangleAttrs{diagonal, false}));
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  detail::require_defined("triu", x);
  return apply1(kTriu, {x}, Attrs::of(TriangleAttrs{diagonal, true}));
}

std::span<const OpDef* const> ops_in_scan() {
  static const OpDef* const list[] = {&kCumsum, &kTril, &kTriu};
  return list;
}

}  // namespace etna
