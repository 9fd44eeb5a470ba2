#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/rows/internal/rows.h>
#include <etna/tensor/ops/sorting/sorting.h>

// Binary search in sorted rows.
namespace etna {
namespace {

struct SearchAttrs {
  bool out_int32, right;
};

std::vector<OutputSpec> searchsorted_infer(const OpCall& call) {
  const Tensor &sorted = call.in[0], &values = call.in[1];
  bool fits = sorted.dim() == 1 || sorted.dim() == values.dim();
  for (int d = 0; fits && sorted.dim() > 1 && d + 1 < sorted.dim(); ++d) fits = sorted.shape()[d] == values.shape()[d];
  if (!fits || sorted.dim() == 0) {
    throw ShapeError(fmt::format(
        "{}: sorted rows {} do not match values {}; they must be a list, or equal except in the last dimension",
        call.op.name, str(sorted.shape()), str(values.shape())));
  }
  return {{values.shape(), call.as<SearchAttrs>().out_int32 ? i32 : i64}};
}

/// Number of values to search in each row.
std::int64_t per_row(const OpCall& call) {
  return call.in[0].dim() == 1 ? std::max<std::int64_t>(call.in[1].numel(), 1) : call.in[1].size(-1);
}

void searchsorted_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<SearchAttrs>();
  const Tensor sorted = call.in[0].contiguous(), values = call.in[1].contiguous();
  const std::int64_t n = sorted.size(-1), each = per_row(call);
  visit(sorted.dtype(), [&](auto zero) {
    using S = decltype(zero);
    using T = std::conditional_t<std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>, float, S>;
    const S *rows = sorted.host<S>(), *wanted = values.host<S>();
    // NaN is larger than everything.
    auto less = [](T x, T y) { return x < y || (y != y && x == x); };
    auto search = [&](std::int64_t i) {
      const S* row = rows + i / each * n;
      const T value = rows::convert<T>(wanted[i]);
      auto left = [&](S x, T v) { return less(rows::convert<T>(x), v); };
      auto right = [&](T v, S x) { return less(v, rows::convert<T>(x)); };
      return (a.right ? std::upper_bound(row, row + n, value, right) : std::lower_bound(row, row + n, value, left)) -
             row;
    };
    cpu::parallel_for(values.numel(), 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (a.out_int32) {
          out[0].host<std::int32_t>()[i] = static_cast<std::int32_t>(search(i));
        } else {
          out[0].host<std::int64_t>()[i] = search(i);
        }
      }
    });
  });
}

bool searchsorted_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<SearchAttrs>();
  if (call.in[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  const Tensor sorted = call.in[0].contiguous(), values = call.in[1].contiguous();
  gpu::Kernel(shaders::search_rows, call)
      .spec(sorted.dtype(), !a.out_int32, a.right)
      .read(sorted)
      .read(values)
      .write(out[0])
      .u32(values.numel(), sorted.size(-1), per_row(call))
      .dispatch(gpu::grid(values.numel(), 256));
  return true;
}

const OpDef kSearch = {
    .name = "searchsorted", .infer = searchsorted_infer, .cpu = searchsorted_cpu, .gpu = searchsorted_gpu};

}  // namespace

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool out_int32, bool right) {
  detail::require_defined("searchsorted", sorted, values);
  const DType t = promote(sorted.dtype(), values.dtype());
  return apply1(kSearch, {sorted.to(t), values.to(t)}, Attrs::of(SearchAttrs{out_int32, right}));
}
Tensor searchsorted(const Tensor& sorted, double value, bool out_int32, bool right) {
  detail::require_defined("searchsorted", sorted);
  const bool whole = value == std::trunc(value) && value >= -0x1p63 && value < 0x1p63;  // i64 can represent it
  const DType t = sorted.dtype() == f64 ? f64 : is_floating(sorted.dtype()) || !whole ? f32 : i64;
  if (t == f32 && std::abs(value) > std::numeric_limits<float>::max()) value = std::copysign(INFINITY, value);
  return searchsorted(sorted, scalar(value, {t, sorted.device()}), out_int32, right);
}
Tensor bucketize(const Tensor& values, const Tensor& boundaries, bool out_int32, bool right) {
  detail::require_defined("bucketize", values, boundaries);
  if (boundaries.dim() != 1)
    throw ShapeError(fmt::format("bucketize: the boundaries are {}, they must be a list", str(boundaries.shape())));
  return searchsorted(boundaries, values, out_int32, right);
}

std::span<const OpDef* const> ops_in_search() {
  static const OpDef* const list[] = {&kSearch};
  return list;
}

}  // namespace etna
