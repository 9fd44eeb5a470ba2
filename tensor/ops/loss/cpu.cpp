#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/device/internal/cpu/math.h>
#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/ops/loss/internal/cross_entropy.h>
#include <etna/tensor/ops/rows/internal/rows.h>

namespace etna::loss {
namespace {

constexpr std::int64_t kGrainElements = 16384;

/// A row converted to the compute type, or in place if it already has that type.
template <typename T, typename S>
const T* row_of(const S* from, std::int64_t n, cpu::Scratch<T>& buffer) {
  if constexpr (std::is_same_v<S, T>) {
    return from;
  } else {
    rows::convert_run(from, buffer.data(), n);
    return buffer.data();
  }
}

template <typename T>
T log_sum_exp(const T* x, std::int64_t n) {
  const T largest = cpu::largest(x, n);
  return m::isfinite(largest) ? largest + static_cast<T>(std::log(cpu::exp_sum(x, largest, nullptr, n))) : largest;
}

template <typename T, typename S>
void forward(const OpCall& call, std::span<Tensor> out) {
  auto attributes = call.as<CrossEntropyAttrs>();
  Tensor logits = call.in[0].contiguous();
  std::int64_t n = logits.size(0), classes = logits.size(1);
  cpu::Scratch<std::int64_t> targets = checked_targets(call.op.name, call.in[1], classes, attributes.ignore_index);
  const S* x = logits.host<S>();
  T* lse = out[1].host<T>();
  cpu::Scratch<T> losses(static_cast<std::size_t>(n));
  T smoothing = static_cast<T>(attributes.label_smoothing);
  cpu::parallel_for(n, std::max<std::int64_t>(1, kGrainElements / std::max<std::int64_t>(1, classes)),
                    [&](std::int64_t first, std::int64_t last) {
                      cpu::Scratch<T> buffer(std::is_same_v<S, T> ? 0 : static_cast<std::size_t>(classes));
                      for (std::int64_t i = first; i < last; ++i) {
                        const T* row = row_of<T>(x + i * classes, classes, buffer);
                        lse[i] = log_sum_exp(row, classes);
                        std::int64_t target = targets[static_cast<std::size_t>(i)];
                        T& loss = losses[static_cast<std::size_t>(i)];
                        if (target == attributes.ignore_index) {
                          loss = 0;
                        } else if (smoothing == T(0)) {
                          loss = lse[i] - row[target];
                        } else {
                          T mean = static_cast<T>(cpu::sum(row, classes) / static_cast<double>(classes));
                          loss = (T(1) - smoothing) * (lse[i] - row[target]) + smoothing * (lse[i] - mean);
                        }
                      }
                    });
  auto counted = n - std::count(targets.begin(), targets.end(), attributes.ignore_index);
  *out[2].host<T>() = static_cast<T>(counted);
  T* loss = out[0].host<T>();
  if (attributes.reduction == Reduction::none) {
    std::copy(losses.begin(), losses.end(), loss);
    return;
  }
  double total = 0;
  for (T value : losses) total += value;
  // If no row counts, the mean is 0 / 0, which is NaN.
  *loss = static_cast<T>(attributes.reduction == Reduction::mean ? total / static_cast<double>(counted) : total);
}

template <typename T, typename S>
void backward(const OpCall& call, std::span<Tensor> out) {
  auto attributes = call.as<CrossEntropyAttrs>();
  Tensor logits = call.in[0].contiguous(), gradient = call.in[4].to(dtype_of<T>()).contiguous();
  std::int64_t n = logits.size(0), classes = logits.size(1);
  cpu::Scratch<std::int64_t> targets = checked_targets(call.op.name, call.in[1], classes, attributes.ignore_index);
  Tensor lse_in = call.in[2].contiguous();
  const S* x = logits.host<S>();
  const T *lse = lse_in.host<T>(), *g = gradient.host<T>();
  S* dx = out[0].host<S>();
  bool per_row = attributes.reduction == Reduction::none;
  T shared = per_row ? T(0) : attributes.reduction == Reduction::mean ? *g / *call.in[3].host<T>() : *g;
  T smoothing = static_cast<T>(attributes.label_smoothing), base = smoothing / static_cast<T>(classes);
  cpu::parallel_for(n, std::max<std::int64_t>(1, kGrainElements / std::max<std::int64_t>(1, classes)),
                    [&](std::int64_t first, std::int64_t last) {
                      cpu::Scratch<T> buffer(std::is_same_v<S, T> ? 0 : static_cast<std::size_t>(classes));
                      for (std::int64_t i = first; i < last; ++i) {
                        const S* from = x + i * classes;
                        S* to = dx + i * classes;
                        std::int64_t target = targets[static_cast<std::size_t>(i)];
                        if (target == attributes.ignore_index) {
                          std::fill_n(to, classes, S(0));
                          continue;
                        }
                        T factor = per_row ? g[i] : shared, row_lse = lse[i];
                        const T* row = row_of<T>(from, classes, buffer);
                        T* p = buffer.data();
                        if constexpr (std::is_same_v<S, T>) p = to;
                        cpu::exp_sum(row, row_lse, p, classes);
                        const T wanted = p[target] - base - (T(1) - smoothing);
                        for (std::int64_t j = 0; j < classes; ++j) p[j] = (p[j] - base) * factor;
                        p[target] = wanted * factor;
                        if constexpr (!std::is_same_v<S, T>) rows::convert_run(p, to, classes);
                      }
                    });
}

template <typename F>
void with_types(DType logits, const F& f) {
  if (logits == f64)
    f(double{}, double{});
  else if (logits == f32)
    f(float{}, float{});
  else if (logits == f16)
    f(float{}, Half{});
  else
    f(float{}, BFloat16{});
}

}  // namespace

cpu::Scratch<std::int64_t> checked_targets(const char* op, const Tensor& given, std::int64_t classes,
                                           std::int64_t ignore_index) {
  Tensor target = given.to(i64).contiguous();
  const std::int64_t* t = target.host<std::int64_t>();
  cpu::Scratch<std::int64_t> targets(t, t + target.numel());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignore_index || (targets[i] >= 0 && targets[i] < classes)) continue;
    throw IndexError(fmt::format("{}: target {} in row {} is outside [0, {}); only ignore_index = {} may be", op,
                                 targets[i], i, classes, ignore_index));
  }
  return targets;
}

void forward_cpu(const OpCall& call, std::span<Tensor> out) {
  with_types(call.in[0].dtype(), [&](auto sum, auto value) { forward<decltype(sum), decltype(value)>(call, out); });
}

void backward_cpu(const OpCall& call, std::span<Tensor> out) {
  with_types(call.in[0].dtype(), [&](auto sum, auto value) { backward<decltype(sum), decltype(value)>(call, out); });
}

}  // namespace etna::loss
