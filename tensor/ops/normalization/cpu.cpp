#include <cmath>

#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/ops/normalization/internal/norm.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// Rows are short enough to stay in the cache, so mean and variance take two passes. Both are summed in double, as are
// the gradients of weight and bias over rows. Elements are computed in f32 (in double for f64).
namespace etna::normalization {
namespace {

/// The mean to subtract from a row, and the factor to multiply it by.
struct Moments {
  double mean = 0, scale = 1;
};

template <typename T>
Moments moments(const T* x, std::int64_t n, bool rms, double eps) {
  Moments m;
  auto count = static_cast<double>(n);
  if (!rms) m.mean = cpu::sum(x, n) / count;
  m.scale = 1 / std::sqrt(cpu::squares(x, m.mean, n) / count + eps);
  return m;
}

/// A weight or bias as T; empty if it was omitted.
template <typename T>
cpu::Scratch<T> values(const Tensor& w, std::int64_t n) {
  if (!w.defined() || n == 0) return {};
  cpu::Scratch<T> out(static_cast<std::size_t>(n));
  const T* at = rows::read(w, 0, w.strides()[0], n, out.data());
  if (at != out.data()) std::copy(at, at + n, out.data());
  return out;
}
template <typename T>
const T* start(const cpu::Scratch<T>& values) {
  return values.empty() ? nullptr : values.data();
}

/// The parameters of the normalization.
template <typename T>
struct Normalizer {
  NormAttrs attributes;
  std::int64_t n;
  cpu::Scratch<T> weight, bias;

  Normalizer(const OpCall& call, const Inputs& in)
      : attributes(call.as<NormAttrs>()),
        n(in.x.shape().back()),
        weight(values<T>(in.weight, n)),
        bias(values<T>(in.bias, n)) {}

  void operator()(const T* from, T* to) const {
    Moments m = moments(from, n, attributes.rms, attributes.eps);
    cpu::normalize(from, m.mean, m.scale, start(weight), start(bias), to, n);
  }
};

template <typename T>
void forward(const OpCall& call, Tensor& y) {
  Inputs in(call);
  Normalizer<T> normalize(call, in);
  rows::along<T>(std::array{in.x}, y, in.x.dim() - 1,
                 [&](const auto& row, T* to, std::int64_t) { normalize(row[0], to); });
}

/// Normalizes the sum after rounding it to its stored dtype, which is the value that backward reads.
template <typename T>
void add_forward(const OpCall& call, Tensor& sum, Tensor& y) {
  if (y.numel() == 0) return;
  Inputs in(call);
  Normalizer<T> normalize(call, in);
  std::int64_t n = normalize.n, count = y.numel() / n;
  rows::Rows rows_x(in.x, in.x.dim() - 1), rows_delta(in.delta, in.delta.dim() - 1);
  std::int64_t repeat = rows_delta.count();
  cpu::parallel_for(count, std::max<std::int64_t>(1, rows::kGrain / n), [&](std::int64_t begin, std::int64_t end) {
    cpu::Scratch<T> buffers(static_cast<std::size_t>(3 * n));
    T *buffer_x = buffers.data(), *buffer_delta = buffer_x + n, *row = buffer_delta + n;
    for (std::int64_t r = begin; r < end; ++r) {
      const T* x = rows::read(in.x, rows_x.offset(r), rows_x.step, n, buffer_x);
      const T* delta = rows::read(in.delta, rows_delta.offset(r % repeat), rows_delta.step, n, buffer_delta);
      for (std::int64_t i = 0; i < n; ++i) row[i] = x[i] + delta[i];
      rows::write(sum, r * n, 1, n, row);
      normalize(rows::read(sum, r * n, 1, n, buffer_x), row);
      rows::write(y, r * n, 1, n, row);
    }
  });
}

template <typename T>
void backward(const OpCall& call, std::span<Tensor> out) {
  auto a = call.as<NormBackwardAttrs>();
  const Tensor &grad = call.in[0], &x = call.in[1], &more = call.in[3];
  Tensor& dx = out[0];
  std::int64_t n = x.shape().back(), count = n == 0 ? 0 : x.numel() / n;
  const cpu::Scratch<T> weight = values<T>(call.in[2], n);
  const T* w = start(weight);
  std::int64_t chunk = rows_per_chunk(count, 32, 64), chunks = (count + chunk - 1) / chunk;
  // dweight, then dbias, for each chunk of the rows.
  cpu::Scratch<double> partial(static_cast<std::size_t>(2 * chunks * n), 0);
  int last = x.dim() - 1;
  rows::Rows rows_g(grad, last), rows_x(x, last), rows_more(more.defined() ? more : x, last);
  cpu::parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    cpu::Scratch<T> buffers(static_cast<std::size_t>(6 * n));
    T *buffer_g = buffers.data(), *buffer_x = buffer_g + n, *row_dx = buffer_x + n, *buffer_more = row_dx + n,
      *normed = buffer_more + n, *scaled = normed + n;
    for (std::int64_t p = begin; p < end; ++p) {
      double *dw = partial.data() + 2 * p * n, *db = dw + n;
      for (std::int64_t r = p * chunk; r < std::min(count, (p + 1) * chunk); ++r) {
        const T* g = rows::read(grad, rows_g.offset(r), rows_g.step, n, buffer_g);
        const T* v = rows::read(x, rows_x.offset(r), rows_x.step, n, buffer_x);
        Moments m = moments(v, n, a.rms, a.eps);
        cpu::normalize(v, m.mean, m.scale, nullptr, nullptr, normed, n);
        for (std::int64_t i = 0; i < n; ++i) scaled[i] = w == nullptr ? g[i] : g[i] * w[i];
        const T along = static_cast<T>(cpu::dot(scaled, normed, n) / static_cast<double>(n));
        const T level = a.rms ? T(0) : static_cast<T>(cpu::sum(scaled, n) / static_cast<double>(n));
        const T scale = static_cast<T>(m.scale);
        for (std::int64_t i = 0; i < n; ++i) row_dx[i] = (scaled[i] - level - normed[i] * along) * scale;
        if (more.defined()) {
          const T* from = rows::read(more, rows_more.offset(r), rows_more.step, n, buffer_more);
          for (std::int64_t i = 0; i < n; ++i) row_dx[i] += from[i];
        }
        rows::write(dx, r * n, 1, n, row_dx);
        if (a.wants_weight) cpu::add_products(dw, g, normed, n);
        if (a.wants_bias) cpu::add_products(db, g, static_cast<const T*>(nullptr), n);
      }
    }
  });
  for (std::int64_t p = 1; p < chunks; ++p) {
    for (std::int64_t i = 0; i < 2 * n; ++i)
      partial[static_cast<std::size_t>(i)] += partial[static_cast<std::size_t>(2 * p * n + i)];
  }
  if (chunks == 0) partial.assign(static_cast<std::size_t>(2 * n), 0);
  std::size_t next = 1;
  if (a.wants_weight) rows::write(out[next++], 0, 1, n, partial.data());
  if (a.wants_bias) rows::write(out[next++], 0, 1, n, partial.data() + n);
  if (a.wants_delta) out[next].copy_(dx);
}

}  // namespace

void forward_cpu(const OpCall& call, std::span<Tensor> out) {
  rows::visit_compute(call.in[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      if (call.as<NormAttrs>().adds)
        add_forward<T>(call, out[0], out[1]);
      else
        forward<T>(call, out[0]);
    }
  });
}

void backward_cpu(const OpCall& call, std::span<Tensor> out) {
  if (call.in[1].dtype() == f64)
    backward<double>(call, out);
  else
    backward<float>(call, out);
}

}  // namespace etna::normalization
