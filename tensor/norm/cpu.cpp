#include <cmath>

#include <etna/tensor/norm/norm.h>
#include <etna/tensor/rows/lanes.h>
#include <etna/tensor/rows/rows.h>

// Rows are short enough to stay in the cache, so mean and variance take two passes; both, and what follows from them, are
// computed in double.
namespace etna::norm {
namespace {

/// What a row is shifted and scaled by.
struct Moments {
  double mean = 0, scale = 1;
};

template <typename T>
Moments moments(const T* x, std::int64_t n, bool rms, double eps) {
  Moments m;
  auto count = static_cast<double>(n);
  if (!rms) m.mean = rows::sum_of(n, [x](std::int64_t i) { return x[i]; }) / count;
  double squares = rows::sum_of(n, [x, center = m.mean](std::int64_t i) {
    double d = static_cast<double>(x[i]) - center;
    return d * d;
  });
  m.scale = 1 / std::sqrt(squares / count + eps);
  return m;
}

/// A weight or bias as doubles; `otherwise` where it was left out.
std::vector<double> values(const Tensor& w, std::int64_t n, double otherwise) {
  std::vector<double> out(static_cast<std::size_t>(n), otherwise);
  if (w.defined() && n > 0) {
    const double* at = rows::read(w, 0, w.strides()[0], n, out.data());
    if (at != out.data()) std::copy(at, at + n, out.data());
  }
  return out;
}

/// What rows are normalized with.
struct Normalizer {
  Attributes attributes;
  std::int64_t n;
  std::vector<double> weight, bias;

  Normalizer(const OpCall& call, const Inputs& in)
      : attributes(call.as<Attributes>()),
        n(in.x.shape().back()),
        weight(values(in.weight, n, 1)),
        bias(values(in.bias, n, 0)) {}

  template <typename T>
  void operator()(const T* from, T* to) const {
    const double *w = weight.data(), *b = bias.data();
    Moments m = moments(from, n, attributes.rms, attributes.eps);
    for (std::int64_t i = 0; i < n; ++i)
      to[i] = static_cast<T>((static_cast<double>(from[i]) - m.mean) * m.scale * w[i] + b[i]);
  }
};

template <typename T>
void forward(const OpCall& call, Tensor& y) {
  Inputs in(call);
  Normalizer normalize(call, in);
  rows::along<T>(std::array{in.x}, y, in.x.dim() - 1,
                 [&](const auto& row, T* to, std::int64_t) { normalize(row[0], to); });
}

/// The row that is normalized is the sum as it was stored, which is what backward gets.
template <typename T>
void add_forward(const OpCall& call, Tensor& sum, Tensor& y) {
  if (y.numel() == 0) return;
  Inputs in(call);
  Normalizer normalize(call, in);
  std::int64_t n = normalize.n, count = y.numel() / n;
  rows::Rows rows_x(in.x, in.x.dim() - 1), rows_delta(in.delta, in.delta.dim() - 1);
  std::int64_t repeat = rows_delta.count();
  cpu::parallel_for(count, std::max<std::int64_t>(1, rows::kGrain / n), [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> buffers(static_cast<std::size_t>(3 * n));
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
  auto a = call.as<BackwardAttributes>();
  const Tensor &grad = call.in[0], &x = call.in[1], &more = call.in[3];
  Tensor& dx = out[0];
  std::int64_t n = x.shape().back(), count = n == 0 ? 0 : x.numel() / n;
  std::vector<double> weight = values(call.in[2], n, 1);
  const double* w = weight.data();
  std::int64_t piece = rows_of_piece(count, 32, 64), pieces = (count + piece - 1) / piece;
  // dweight, then dbias, of each piece.
  std::vector<double> partial(static_cast<std::size_t>(2 * pieces * n));
  int last = x.dim() - 1;
  rows::Rows rows_g(grad, last), rows_x(x, last), rows_more(more.defined() ? more : x, last);
  cpu::parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> buffers(static_cast<std::size_t>(4 * n));
    T *buffer_g = buffers.data(), *buffer_x = buffer_g + n, *row_dx = buffer_x + n, *buffer_more = row_dx + n;
    for (std::int64_t p = begin; p < end; ++p) {
      double *dw = partial.data() + 2 * p * n, *db = dw + n;
      for (std::int64_t r = p * piece; r < std::min(count, (p + 1) * piece); ++r) {
        const T* g = rows::read(grad, rows_g.offset(r), rows_g.step, n, buffer_g);
        const T* v = rows::read(x, rows_x.offset(r), rows_x.step, n, buffer_x);
        Moments m = moments(v, n, a.rms, a.eps);
        auto normed = [=](std::int64_t i) { return (static_cast<double>(v[i]) - m.mean) * m.scale; };
        auto scaled = [=](std::int64_t i) { return static_cast<double>(g[i]) * w[i]; };
        double along = rows::sum_of(n, [=](std::int64_t i) { return scaled(i) * normed(i); }) / static_cast<double>(n);
        double level = a.rms ? 0 : rows::sum_of(n, scaled) / static_cast<double>(n);
        auto change = [=](std::int64_t i) { return (scaled(i) - level - normed(i) * along) * m.scale; };
        if (more.defined()) {
          const T* from = rows::read(more, rows_more.offset(r), rows_more.step, n, buffer_more);
          for (std::int64_t i = 0; i < n; ++i) row_dx[i] = static_cast<T>(static_cast<double>(from[i]) + change(i));
        } else {
          for (std::int64_t i = 0; i < n; ++i) row_dx[i] = static_cast<T>(change(i));
        }
        rows::write(dx, r * n, 1, n, row_dx);
        if (a.wants_weight) {
          for (std::int64_t i = 0; i < n; ++i) dw[i] += static_cast<double>(g[i]) * normed(i);
        }
        if (a.wants_bias) {
          for (std::int64_t i = 0; i < n; ++i) db[i] += static_cast<double>(g[i]);
        }
      }
    }
  });
  for (std::int64_t p = 1; p < pieces; ++p) {
    for (std::int64_t i = 0; i < 2 * n; ++i)
      partial[static_cast<std::size_t>(i)] += partial[static_cast<std::size_t>(2 * p * n + i)];
  }
  if (pieces == 0) partial.assign(static_cast<std::size_t>(2 * n), 0);
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
      if (call.as<Attributes>().adds)
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

}  // namespace etna::norm
