#include <algorithm>

#include <etna/tensor/autocast.h>
#include <etna/tensor/ops/reduce/internal/reduce.h>

#include <fmt/format.h>

#include <etna/tensor/ops.h>

// Reductions over any dimensions. Kernels: tensor/ops/reduce/cpu.cpp and shaders/reduce/reduce.comp.
namespace etna {
namespace {

using ReduceAttrs = reduce::ReduceAttrs;
using ReduceKind = reduce::Kind;

Shape reduced_shape(const Shape& shape, const Dims& dims, bool keepdim) {
  Shape out;
  for (int d = 0; d < shape.rank(); ++d) {
    if (!dims.contains(d))
      out.push_back(shape[d]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

std::vector<OutputSpec> reduce_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  auto a = call.as<ReduceAttrs>();
  bool orders = a.kind == ReduceKind::max || a.kind == ReduceKind::min || a.kind == ReduceKind::argmax ||
                a.kind == ReduceKind::argmin;
  bool real = a.kind == ReduceKind::mean || a.kind == ReduceKind::logsumexp || a.kind == ReduceKind::var ||
              a.kind == ReduceKind::std || a.kind == ReduceKind::norm;
  if (real && !is_floating(x.dtype())) {
    throw DtypeError(fmt::format("{}: {} {} is not floating; convert it first, e.g. with .to(f32)", call.op.name,
                                 name(x.dtype()), str(x.shape())));
  }
  Shape taken;
  for (std::int64_t d : a.dims) taken.push_back(x.shape()[static_cast<int>(d)]);
  const std::int64_t length = numel(taken, call.op.name);
  Shape shape = reduced_shape(x.shape(), a.dims, a.keepdim);
  if (orders && length == 0 && numel(shape, call.op.name) > 0) {
    throw ShapeError(
        fmt::format("{}: dimensions {} of {} are empty, and an empty set has no largest or smallest element",
                    call.op.name, str(a.dims), str(x.shape())));
  }
  if (length > std::int64_t{0x7fffffff}) {
    throw ShapeError(fmt::format("{}: {} elements of {} go into one result, kernels index 2^31; reduce in two steps",
                                 call.op.name, length, str(x.shape())));
  }
  DType t = x.dtype();
  if (a.kind == ReduceKind::argmax || a.kind == ReduceKind::argmin) t = i64;
  if ((a.kind == ReduceKind::sum || a.kind == ReduceKind::prod) && !is_floating(t)) t = i64;
  if (a.widens) t = f32;
  return {{shape, t}};
}

/// Restores the reduced dimensions of a result with size 1.
Tensor keep(const Tensor& y, const VjpCall& call) {
  return y.reshape(reduced_shape(call.in[0].shape(), call.as<ReduceAttrs>().dims, true));
}
double length_of(const VjpCall& call) {
  double n = 1;
  for (std::int64_t d : call.as<ReduceAttrs>().dims) n *= static_cast<double>(call.in[0].shape()[static_cast<int>(d)]);
  return n;
}
/// The dtype for counts: f16 cannot distinguish 2049 from 2048.
DType counting(const Tensor& x) { return x.dtype() == f64 ? f64 : f32; }

/// sum(), except that empty dims return x itself; sum() would reduce all.
Tensor sum_keeping(const Tensor& x, const Dims& dims) { return dims.empty() ? x : sum(x, dims, true); }

TensorList sum_vjp(const VjpCall& call) { return {keep(call.grad[0], call).expand(call.in[0].shape())}; }
TensorList mean_vjp(const VjpCall& call) {
  return {keep(call.grad[0] * (1.0 / length_of(call)), call).expand(call.in[0].shape())};
}

/// Equal extremes share the gradient. A NaN extreme equals nothing, so the gradient is 0/0, which keeps the NaN
/// visible.
TensorList reduce_extreme_vjp(const VjpCall& call) {
  const Tensor& x = call.in[0];
  Tensor hit = cast(eq(x, keep(call.out[0], call)), counting(x));
  Tensor share = keep(call.grad[0], call) / sum_keeping(hit, call.as<ReduceAttrs>().dims);
  return {(hit * share).to(x.dtype())};
}

/// Shifts x by k along the last dimension, to the right or to the left, and fills with ones.
Tensor moved_by(const Tensor& x, std::int64_t k, bool right) {
  std::int64_t n = x.size(-1);
  Shape edge = x.shape();
  edge.back() = std::min(k, n);
  Tensor in = ones(edge, {x.dtype(), x.device()});
  if (k >= n) return in;
  if (right) return cat({in, x.slice(-1, 0, n - k)}, -1);
  return cat({x.slice(-1, k, n), in}, -1);
}
/// For each element along the last dimension, the product of all elements before (or after) it. Doubles the distance in
/// each step.
Tensor exclusive_products(const Tensor& x, bool before) {
  Tensor y = moved_by(x, 1, before);
  for (std::int64_t k = 1; k < x.size(-1); k *= 2) y = y * moved_by(y, k, before);
  return y;
}

/// Moves the reduced dimensions of x after the kept ones and merges them.
struct Moved {
  Dims order;
  Shape moved;
  Moved(const Tensor& x, const Dims& dims) {
    for (int d = 0; d < x.dim(); ++d) {
      if (!dims.contains(d)) order.push_back(d);
    }
    for (std::int64_t d : dims) order.push_back(d);
    for (std::int64_t d : order) moved.push_back(x.shape()[static_cast<int>(d)]);
  }
  Tensor back(const Tensor& x) const {
    Dims inverse = order;
    for (int i = 0; i < order.rank(); ++i) inverse[static_cast<int>(order[i])] = i;
    return x.reshape(moved).permute(inverse);
  }
};

/// The gradient of each element is the product of the other elements. Dividing the total product by each element
/// handles any number of zeros, but its own derivative is wrong. If a second derivative is needed, the gradient
/// multiplies the products from both sides.
TensorList prod_vjp(const VjpCall& call) {
  const Tensor& x = call.in[0];
  auto dims = call.as<ReduceAttrs>().dims;
  Tensor g = keep(call.grad[0], call);
  if (dims.empty() || x.numel() == 0) return {g.expand(x.shape())};
  if (grad_enabled()) {
    Moved moved(x, dims);
    auto n = static_cast<std::int64_t>(length_of(call));
    Tensor rows = x.permute(moved.order).reshape({x.numel() / n, n});
    Tensor others = exclusive_products(rows, true) * exclusive_products(rows, false);
    return {g * moved.back(others)};
  }
  Tensor zero = eq(x, 0.0);
  Tensor zeros_there = sum_keeping(cast(zero, counting(x)), dims);
  Tensor nonzero = where(zero, 1.0, x);
  Tensor product = prod(nonzero, dims, true);
  Tensor at_zero = where(eq(zeros_there, 1.0), product, 0.0), elsewhere = where(eq(zeros_there, 0.0), product, 0.0);
  return {g * where(zero, at_zero, elsewhere / nonzero)};
}

TensorList logsumexp_vjp(const VjpCall& call) {
  return {keep(call.grad[0], call) * exp(call.in[0] - keep(call.out[0], call))};
}

TensorList var_vjp(const VjpCall& call) {
  const Tensor& x = call.in[0];
  auto a = call.as<ReduceAttrs>();
  double divisor = std::max(0.0, length_of(call) - a.correction);
  Tensor centered = a.dims.empty() ? zeros_like(x) : x - mean(x, a.dims, true);
  return {keep(call.grad[0] * (2.0 / divisor), call) * centered};
}

/// x / y, where x is a component of the root y. 0 where y is 0: there the root has no derivative.
Tensor share_of_root(const Tensor& x, const Tensor& y) {
  const Tensor zero = eq(y, 0.0);
  return where(zero, 0.0, x / where(zero, 1.0, y));
}

TensorList std_vjp(const VjpCall& call) {
  const Tensor& x = call.in[0];
  const auto a = call.as<ReduceAttrs>();
  const double divisor = std::max(0.0, length_of(call) - a.correction);
  const Tensor centered = a.dims.empty() ? zeros_like(x) : x - mean(x, a.dims, true);
  return {keep(call.grad[0] * (1.0 / divisor), call) * share_of_root(centered, keep(call.out[0], call))};
}

TensorList norm_vjp(const VjpCall& call) {
  return {keep(call.grad[0], call) * share_of_root(call.in[0], keep(call.out[0], call))};
}

TensorList mean_reference(const OpCall& call) {
  auto a = call.as<ReduceAttrs>();
  const Tensor& x = call.in[0];
  double n = 1;
  for (std::int64_t d : a.dims) n *= static_cast<double>(x.shape()[static_cast<int>(d)]);
  Tensor total = sum_keeping(x.to(counting(x)), a.dims);
  return {(total / n).to(x.dtype()).reshape(reduced_shape(x.shape(), a.dims, a.keepdim))};
}
TensorList logsumexp_reference(const OpCall& call) {
  auto a = call.as<ReduceAttrs>();
  Tensor x = call.in[0].to(counting(call.in[0]));
  if (a.dims.empty()) return {call.in[0].clone()};
  Tensor largest =
      x.numel() == 0 ? zeros(reduced_shape(x.shape(), a.dims, true), {x.dtype(), x.device()}) : max(x, a.dims, true);
  largest = where(isfinite(largest), largest, 0.0).detach();  // an infinite maximum would give inf - inf
  Tensor y = log(sum(exp(x - largest), a.dims, true)) + largest;
  return {y.to(call.in[0].dtype()).reshape(reduced_shape(x.shape(), a.dims, a.keepdim))};
}
TensorList var_reference(const OpCall& call) {
  auto a = call.as<ReduceAttrs>();
  Tensor x = call.in[0].to(counting(call.in[0]));
  double n = 1;
  for (std::int64_t d : a.dims) n *= static_cast<double>(x.shape()[static_cast<int>(d)]);
  Tensor mean = sum_keeping(x, a.dims) / n;
  Tensor y = sum_keeping(square(x - mean), a.dims) / std::max(0.0, n - a.correction);
  return {y.to(call.in[0].dtype()).reshape(reduced_shape(x.shape(), a.dims, a.keepdim))};
}

TensorList std_reference(const OpCall& call) { return {sqrt(var_reference(call)[0])}; }
TensorList norm_reference(const OpCall& call) {
  auto a = call.as<ReduceAttrs>();
  const Tensor x = call.in[0].to(counting(call.in[0]));
  const Tensor y = sqrt(sum_keeping(square(x), a.dims));
  return {y.to(call.in[0].dtype()).reshape(reduced_shape(x.shape(), a.dims, a.keepdim))};
}

const OpDef kSum = {.name = "sum", .infer = reduce_infer, .cpu = reduce::cpu, .gpu = reduce::gpu, .vjp = sum_vjp};
const OpDef kMean = {.name = "mean",
                     .infer = reduce_infer,
                     .cpu = reduce::cpu,
                     .gpu = reduce::gpu,
                     .reference = mean_reference,
                     .vjp = mean_vjp};
const OpDef kProd = {.name = "prod",
                     .infer = reduce_infer,
                     .cpu = reduce::cpu,
                     .gpu = reduce::gpu,
                     .vjp = prod_vjp,
                     .saved = Saved::inputs};
const OpDef kMax = {.name = "max",
                    .infer = reduce_infer,
                    .cpu = reduce::cpu,
                    .gpu = reduce::gpu,
                    .vjp = reduce_extreme_vjp,
                    .saved = Saved::both};
const OpDef kMin = {.name = "min",
                    .infer = reduce_infer,
                    .cpu = reduce::cpu,
                    .gpu = reduce::gpu,
                    .vjp = reduce_extreme_vjp,
                    .saved = Saved::both};
const OpDef kArgmax = {.name = "argmax", .infer = reduce_infer, .cpu = reduce::cpu, .gpu = reduce::gpu};
const OpDef kArgmin = {.name = "argmin", .infer = reduce_infer, .cpu = reduce::cpu, .gpu = reduce::gpu};
const OpDef kLogsumexp = {.name = "logsumexp",
                          .infer = reduce_infer,
                          .cpu = reduce::cpu,
                          .gpu = reduce::gpu,
                          .reference = logsumexp_reference,
                          .vjp = logsumexp_vjp,
                          .saved = Saved::both};
const OpDef kVar = {.name = "var",
                    .infer = reduce_infer,
                    .cpu = reduce::cpu,
                    .gpu = reduce::gpu,
                    .reference = var_reference,
                    .vjp = var_vjp,
                    .saved = Saved::inputs};
const OpDef kDeviation = {.name = "std",
                          .infer = reduce_infer,
                          .cpu = reduce::cpu,
                          .gpu = reduce::gpu,
                          .reference = std_reference,
                          .vjp = std_vjp,
                          .saved = Saved::both};
const OpDef kRootOfSquares = {.name = "norm",
                              .infer = reduce_infer,
                              .cpu = reduce::cpu,
                              .gpu = reduce::gpu,
                              .reference = norm_reference,
                              .vjp = norm_vjp,
                              .saved = Saved::both};

Tensor call(const OpDef& op, ReduceKind kind, const Tensor& x, const Dims& dims, bool keepdim, int correction = 0) {
  detail::require_defined(op.name, x);
  return apply1(op, {x}, Attrs::of(ReduceAttrs{kind, wrap_dims(dims, x.dim(), op.name), keepdim, correction}));
}
Tensor call_arg(const OpDef& op, ReduceKind kind, const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  detail::require_defined(op.name, x);
  return call(op, kind, x, dim ? Dims{*dim} : Dims{}, keepdim);
}

}  // namespace

Tensor sum(const Tensor& x, Dims dims, bool keepdim) {
  return call(kSum, ReduceKind::sum, detail::raised(x), dims, keepdim);
}
Tensor sum(const Tensor& x, Dims dims, bool keepdim, DType out) {
  detail::require_defined("sum", x);
  bool widens = out == f32 && item_size(x.dtype()) == 2;
  if (!widens && out != x.dtype()) {
    throw DtypeError(fmt::format("sum: of {} sums are not {}; f16 and bf16 may give f32", name(x.dtype()), name(out)));
  }
  return apply1(kSum, {x},
                Attrs::of(ReduceAttrs{ReduceKind::sum, wrap_dims(dims, x.dim(), "sum"), keepdim, 0, widens}));
}
Tensor mean(const Tensor& x, Dims dims, bool keepdim) {
  return call(kMean, ReduceKind::mean, detail::raised(x), dims, keepdim);
}
Tensor max(const Tensor& x, Dims dims, bool keepdim) { return call(kMax, ReduceKind::max, x, dims, keepdim); }
Tensor min(const Tensor& x, Dims dims, bool keepdim) { return call(kMin, ReduceKind::min, x, dims, keepdim); }
Tensor prod(const Tensor& x, Dims dims, bool keepdim) {
  return call(kProd, ReduceKind::prod, detail::raised(x), dims, keepdim);
}
Tensor logsumexp(const Tensor& x, Dims dims, bool keepdim) {
  return call(kLogsumexp, ReduceKind::logsumexp, detail::raised(x), dims, keepdim);
}
Tensor var(const Tensor& x, Dims dims, bool keepdim, int correction) {
  return call(kVar, ReduceKind::var, detail::raised(x), dims, keepdim, correction);
}
Tensor std(const Tensor& x, Dims dims, bool keepdim, int correction) {
  return call(kDeviation, ReduceKind::std, detail::raised(x), dims, keepdim, correction);
}
Tensor reduce::root_of_squares(const Tensor& x, const Dims& dims, bool keepdim) {
  return call(kRootOfSquares, ReduceKind::norm, x, dims, keepdim);
}
Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  return call_arg(kArgmax, ReduceKind::argmax, x, dim, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  return call_arg(kArgmin, ReduceKind::argmin, x, dim, keepdim);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  detail::require_defined("sum_to", x);
  if (x.shape() == shape) return x;
  int extra = x.dim() - shape.rank();
  Dims repeated;
  bool fits = extra >= 0;
  for (int d = 0; fits && d < x.dim(); ++d) {
    std::int64_t wanted = d < extra ? 1 : shape[d - extra];
    fits = wanted == x.shape()[d] || wanted == 1;
    if (d < extra || wanted != x.shape()[d]) repeated.push_back(d);
  }
  if (!fits)
    throw ShapeError(fmt::format("sum_to: {} does not broadcast to {}, so {} cannot be summed to it", str(shape),
                                 str(x.shape()), str(x.shape())));
  return sum(x, repeated, true).reshape(shape);
}

std::span<const OpDef* const> ops_in_reduce() {
  static const OpDef* const list[] = {&kSum,    &kMean,      &kMax, &kMin,       &kProd,         &kArgmax,
                                      &kArgmin, &kLogsumexp, &kVar, &kDeviation, &kRootOfSquares};
  return list;
}

}  // namespace etna
