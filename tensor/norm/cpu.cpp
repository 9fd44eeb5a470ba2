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

template <typename T>
void forward(const OpCall& call, Tensor& y) {
  auto a = call.as<Attributes>();
  const Tensor& x = call.in[0];
  std::int64_t n = x.shape().back();
  std::vector<double> weight = values(call.in[1], n, 1), bias = values(a.rms ? Tensor() : call.in[2], n, 0);
  const double *w = weight.data(), *b = bias.data();
  rows::along<T>(std::array{x}, y, x.dim() - 1, [&](const auto& in, T* to, std::int64_t) {
    const T* from = in[0];
    Moments m = moments(from, n, a.rms, a.eps);
    for (std::int64_t i = 0; i < n; ++i)
      to[i] = static_cast<T>((static_cast<double>(from[i]) - m.mean) * m.scale * w[i] + b[i]);
  });
}

template <typename T>
void backward(const OpCall& call, std::span<Tensor> out) {
  auto a = call.as<BackwardAttributes>();
  const Tensor &grad = call.in[0], &x = call.in[1];
  Tensor& dx = out[0];
  std::int64_t n = x.shape().back(), count = n == 0 ? 0 : x.numel() / n;
  std::vector<double> weight = values(call.in[2], n, 1);
  const double* w = weight.data();
  std::int64_t piece = rows_of_piece(count, 32, 64), pieces = (count + piece - 1) / piece;
  // dweight, then dbias, of each piece.
  std::vector<double> partial(static_cast<std::size_t>(2 * pieces * n));
  rows::Rows rows_g(grad, x.dim() - 1), rows_x(x, x.dim() - 1);
  cpu::parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> buffers(static_cast<std::size_t>(3 * n));
    T *buffer_g = buffers.data(), *buffer_x = buffer_g + n, *row_dx = buffer_x + n;
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
        for (std::int64_t i = 0; i < n; ++i)
          row_dx[i] = static_cast<T>((scaled(i) - level - normed(i) * along) * m.scale);
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
  if (a.wants_bias) rows::write(out[next], 0, 1, n, partial.data() + n);
}

}  // namespace

void forward_cpu(const OpCall& call, std::span<Tensor> out) {
  if (call.in[0].dtype() == f64)
    forward<double>(call, out[0]);
  else
    forward<float>(call, out[0]);
}

void backward_cpu(const OpCall& call, std::span<Tensor> out) {
  if (call.in[1].dtype() == f64)
    backward<double>(call, out);
  else
    backward<float>(call, out);
}

}  // namespace etna::norm
