#include <etna/tensor/ops/scan/internal/accumulate.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/rows/internal/rows.h>
#include <etna/tensor/ops/sorting/internal/rows.h>
#include <etna/tensor/ops/sorting/sorting.h>

// cummax, cummin, cumprod, logcumsumexp and the recurrence that their gradients need. All scan the last dimension.
namespace etna {

namespace scan {

namespace {

/// True if the shader may read and write rows of n elements in vectors of four.
bool takes_vectors(std::int64_t n, std::initializer_list<const Tensor*> all) {
  return n % 4 == 0 && std::all_of(all.begin(), all.end(), [](const Tensor* t) {
           return !t->defined() || (is_floating(t->dtype()) && t->address() % (4 * item_size(t->dtype())) == 0);
         });
}

}  // namespace

bool on_gpu(const OpCall& call, Kind kind, bool reverse, const Tensor& given, const Tensor& given_factors,
            const Tensor& y, const Tensor& indices) {
  const bool floating = is_floating(given.dtype()), wide = y.dtype() == i64;
  const std::int64_t chunk = wide ? 2048 : 4096;  // CHUNK of the shader
  if (given.dtype() == f64) return false;
  if (y.numel() == 0) return true;
  const Tensor x = given.contiguous(), factors = given_factors.defined() ? given_factors.contiguous() : Tensor();
  const std::int64_t n = x.size(-1), rows = x.numel() / n, chunks = (n + chunk - 1) / chunk;
  const DType state = floating ? f32 : wide ? i64 : i32;
  const bool vectors = !indices.defined() && takes_vectors(n, {&x, &factors, &y});
  Tensor totals, extra, places;
  if (chunks > 1) {
    totals = empty({rows * chunks}, {state, y.device()});
    if (kind == Kind::log_sum_exp || kind == Kind::recurrence) extra = empty_like(totals);
    if (indices.defined()) places = empty({rows * chunks}, {i32, y.device()});
  }
  auto launch = [&](const gpu::Variants& variants, std::int64_t groups) {
    gpu::Kernel kernel(variants.of(state, y.device()), call);
    kernel.spec(static_cast<int>(kind), reverse, x.dtype(), y.dtype(), state).read(x).read(factors);
    kernel.write(y).write(indices);
    kernel.read_write(totals).read_write(extra).read_write(places);
    kernel.u32(rows, n, chunks).dispatch(gpu::grid(groups));
  };
  if (chunks > 1) {
    launch({vectors ? shaders::accumulate_totals_vectors : shaders::accumulate_totals_float,
            shaders::accumulate_totals_int, shaders::accumulate_totals_i64, shaders::accumulate_totals_pairs},
           rows * chunks);
    launch({shaders::accumulate_carry_float, shaders::accumulate_carry_int, shaders::accumulate_carry_i64,
            shaders::accumulate_carry_pairs},
           rows);
  }
  launch({vectors ? shaders::accumulate_vectors : shaders::accumulate_float, shaders::accumulate_int,
          shaders::accumulate_i64, shaders::accumulate_pairs},
         rows * chunks);
  return true;
}

}  // namespace scan

namespace {

using AccumulateKind = scan::Kind;

struct KindAttrs {
  AccumulateKind kind;
  bool reverse;
};

// ---- cummax, cummin: values and indices

std::vector<OutputSpec> extreme_infer(const OpCall& call) {
  return {{call.in[0].shape(), call.in[0].dtype()}, {call.in[0].shape(), i64}};
}

void extreme_cpu(const OpCall& call, std::span<Tensor> out) {
  const bool largest = call.as<KindAttrs>().kind == AccumulateKind::largest;
  const Tensor x = call.in[0].contiguous();
  if (x.numel() == 0) return;
  const std::int64_t n = x.size(-1);
  visit(x.dtype(), [&](auto zero) {
    using S = decltype(zero);
    using T = std::conditional_t<std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>, float, S>;
    cpu::parallel_for(x.numel() / n, std::max<std::int64_t>(1, 16384 / n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const S* from = x.host<S>() + r * n;
        S* to = out[0].host<S>() + r * n;
        std::int64_t* places = out[1].host<std::int64_t>() + r * n;
        T best = rows::convert<T>(from[0]);
        std::int64_t place = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          const T v = rows::convert<T>(from[i]);
          if (v != v || (best == best && (largest ? v >= best : v <= best))) best = v, place = i;
          to[i] = from[place];
          places[i] = place;
        }
      }
    });
  });
}

bool extreme_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<KindAttrs>();
  return scan::on_gpu(call, a.kind, false, call.in[0], {}, out[0], out[1]);
}

TensorList accumulate_extreme_vjp(const VjpCall& call) {
  const Tensor& g = call.grad[0];
  if (!g.defined()) return {zeros_like(call.in[0])};
  return {scatter_add(zeros(call.in[0].shape(), {g.dtype(), g.device()}), -1, call.out[1], g)};
}

const OpDef kCummax = {.name = "cummax",
                       .infer = extreme_infer,
                       .cpu = extreme_cpu,
                       .gpu = extreme_gpu,
                       .vjp = accumulate_extreme_vjp,
                       .saved = Saved::outputs,
                       .saved_outputs = 0b10};
const OpDef kCummin = {.name = "cummin",
                       .infer = extreme_infer,
                       .cpu = extreme_cpu,
                       .gpu = extreme_gpu,
                       .vjp = accumulate_extreme_vjp,
                       .saved = Saved::outputs,
                       .saved_outputs = 0b10};

ValuesIndices running(const OpDef& op, AccumulateKind kind, const Tensor& x, std::int64_t dim) {
  detail::require_defined(op.name, x);
  const sorting::LastDim rows(x, wrap_dim(dim, x.dim(), op.name));
  TensorList out = apply(op, {rows.x}, Attrs::of(KindAttrs{kind, false}));
  return {rows.back(out[0]), rows.back(out[1])};
}

// ---- cumprod, logcumsumexp

std::vector<OutputSpec> accumulate_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  if (call.as<KindAttrs>().kind == AccumulateKind::log_sum_exp && !is_floating(x.dtype())) {
    throw DtypeError(
        fmt::format("{}: {} is not floating; convert it, e.g. with .to(f32)", call.op.name, name(x.dtype())));
  }
  return {{x.shape(), is_floating(x.dtype()) ? x.dtype() : i64}};
}

void accumulate_cpu(const OpCall& call, std::span<Tensor> out) {
  const bool products = call.as<KindAttrs>().kind == AccumulateKind::product;
  rows::visit_compute(call.in[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
    rows::along<T>(std::array{call.in[0]}, out[0], call.in[0].dim() - 1, [&](const auto& in, T* y, std::int64_t n) {
      if (products) {
        Wide product = 1;
        for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(product *= static_cast<Wide>(in[0][i]));
      } else if constexpr (std::is_floating_point_v<T>) {
        double most = -std::numeric_limits<double>::infinity(), total = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          const double v = in[0][i], larger = most != most || v != v ? most + v : std::max(most, v);
          total = total * (most == larger ? 1 : std::exp(most - larger)) + (v == larger ? 1 : std::exp(v - larger));
          most = larger;
          y[i] = static_cast<T>(std::log(total) + most);
        }
      }
    });
  });
}

bool accumulate_gpu(const OpCall& call, std::span<Tensor> out) {
  return scan::on_gpu(call, call.as<KindAttrs>().kind, false, call.in[0], {}, out[0], {});
}

/// x moved by one along the last dimension: element i is x[i + 1], and `last` at the end.
Tensor next(const Tensor& x, double last) {
  const std::int64_t n = x.size(-1);
  Shape edge = x.shape();
  edge.back() = 1;
  return cat({x.slice(-1, 1, n), full(edge, last, {x.dtype(), x.device()})}, -1);
}
Tensor previous(const Tensor& x, double first) {
  const std::int64_t n = x.size(-1);
  Shape edge = x.shape();
  edge.back() = 1;
  return cat({full(edge, first, {x.dtype(), x.device()}), x.slice(-1, 0, n - 1)}, -1);
}

/// dL/dx[i] = (product of the elements before) · Σ over k ≥ i of g[k] · (product of the elements between i and k). It
/// divides by nothing, so zeros need no care and every derivative is correct.
TensorList cumprod_vjp(const VjpCall& call) {
  const Tensor &x = call.in[0], &g = call.grad[0];
  if (x.numel() == 0) return {g};
  return {previous(cumprod(x, -1), 1) * scan::linear_recurrence(next(x, 0), g, true)};
}

/// dL/dx[i] = exp(x[i] - y[i]) · Σ over k ≥ i of g[k] · exp(y[i] - y[k]). y never decreases, so nothing overflows.
TensorList logcumsumexp_vjp(const VjpCall& call) {
  const Tensor &x = call.in[0], &y = call.out[0], &g = call.grad[0];
  if (x.numel() == 0) return {g};
  const Tensor finite = isfinite(y);
  const Tensor decay = exp(where(finite, y - next(y, 0), 0.0)), share = exp(where(finite, x - y, 0.0));
  return {share * scan::linear_recurrence(decay, g, true)};
}

const OpDef kCumprod = {.name = "cumprod",
                        .infer = accumulate_infer,
                        .cpu = accumulate_cpu,
                        .gpu = accumulate_gpu,
                        .vjp = cumprod_vjp,
                        .saved = Saved::inputs};
const OpDef kLogcumsumexp = {.name = "logcumsumexp",
                             .infer = accumulate_infer,
                             .cpu = accumulate_cpu,
                             .gpu = accumulate_gpu,
                             .vjp = logcumsumexp_vjp,
                             .saved = Saved::both};

// ---- the recurrence

std::vector<OutputSpec> linear_recurrence_infer(const OpCall& call) {
  const Tensor &a = call.in[0], &b = call.in[1];
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || !is_floating(a.dtype())) {
    throw ShapeError(fmt::format("{}: factors {} {} and terms {} {} must have one shape and one floating dtype",
                                 call.op.name, name(a.dtype()), str(a.shape()), name(b.dtype()), str(b.shape())));
  }
  return {{b.shape(), b.dtype()}};
}

void linear_recurrence_cpu(const OpCall& call, std::span<Tensor> out) {
  const bool reverse = call.as<KindAttrs>().reverse;
  rows::visit_compute(call.in[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      rows::along<T>(std::array{call.in[0], call.in[1]}, out[0], call.in[0].dim() - 1,
                     [&](const auto& in, T* y, std::int64_t n) {
                       double s = 0;
                       for (std::int64_t k = 0; k < n; ++k) {
                         const std::int64_t i = reverse ? n - 1 - k : k;
                         s = static_cast<double>(in[1][i]) + (k > 0 ? static_cast<double>(in[0][i]) * s : 0.0);
                         y[i] = static_cast<T>(s);
                       }
                     });
    }
  });
}

bool linear_recurrence_gpu(const OpCall& call, std::span<Tensor> out) {
  return scan::on_gpu(call, AccumulateKind::recurrence, call.as<KindAttrs>().reverse, call.in[1], call.in[0], out[0],
                      {});
}

TensorList linear_recurrence_vjp(const VjpCall& call) {
  const Tensor &a = call.in[0], &s = call.out[0], &g = call.grad[0];
  if (a.numel() == 0) return {g, g};
  const bool reverse = call.as<KindAttrs>().reverse;
  const Tensor to_b = scan::linear_recurrence(reverse ? previous(a, 0) : next(a, 0), g, !reverse);
  return {to_b * (reverse ? next(s, 0) : previous(s, 0)), to_b};
}

const OpDef kRecurrence = {.name = "linear_recurrence",
                           .infer = linear_recurrence_infer,
                           .cpu = linear_recurrence_cpu,
                           .gpu = linear_recurrence_gpu,
                           .vjp = linear_recurrence_vjp,
                           .saved = Saved::both,
                           .saved_inputs = 0b01};

Tensor accumulate_along(const OpDef& op, AccumulateKind kind, const Tensor& x, std::int64_t dim) {
  detail::require_defined(op.name, x);
  const sorting::LastDim rows(x, wrap_dim(dim, x.dim(), op.name));
  return rows.back(apply1(op, {detail::raised(rows.x)}, Attrs::of(KindAttrs{kind, false})));
}

}  // namespace

Tensor scan::linear_recurrence(const Tensor& a, const Tensor& b, bool reverse) {
  return apply1(kRecurrence, {a, b}, Attrs::of(KindAttrs{AccumulateKind::recurrence, reverse}));
}

ValuesIndices cummax(const Tensor& x, std::int64_t dim) { return running(kCummax, AccumulateKind::largest, x, dim); }
ValuesIndices cummin(const Tensor& x, std::int64_t dim) { return running(kCummin, AccumulateKind::smallest, x, dim); }
Tensor cumprod(const Tensor& x, std::int64_t dim) {
  return accumulate_along(kCumprod, AccumulateKind::product, x, dim);
}
Tensor logcumsumexp(const Tensor& x, std::int64_t dim) {
  return accumulate_along(kLogcumsumexp, AccumulateKind::log_sum_exp, x, dim);
}

std::span<const OpDef* const> ops_in_accumulate() {
  static const OpDef* const list[] = {&kCummax, &kCummin, &kCumprod, &kLogcumsumexp, &kRecurrence};
  return list;
}

}  // namespace etna
