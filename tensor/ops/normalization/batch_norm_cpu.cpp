#include <algorithm>
#include <cmath>

#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/normalization/internal/batch_norm.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// Sums are in double. Tasks sum fixed chunks of the rows, whose states are merged in order, so that the bits do not
// depend on the number of threads. A row is the B elements of one channel; if B is 1, it is one element of each of the
// C channels.
namespace etna::normalization::batch {
namespace {

constexpr std::int64_t kMostChunks = 32;  ///< chunks of the rows, at most

struct State {
  double count = 0, mean = 0, squares = 0;
  void merge(const State& b) {
    const double both = count + b.count, d = b.mean - mean;
    if (b.count == 0) return;
    mean += d * (b.count / both);
    squares += b.squares + d * d * (count * b.count / both);
    count = both;
  }
};

/// The shape of x [A, C, B] as the loops use it.
struct Extents {
  std::int64_t a, c, b;
  explicit Extents(const Tensor& x) : a(x.shape()[0]), c(x.shape()[1]), b(x.shape()[2]) {}
  std::int64_t chunk_rows(std::int64_t rows, std::int64_t width) const {
    const std::int64_t least = std::max<std::int64_t>(1, rows::kGrain / std::max<std::int64_t>(1, width));
    return std::max(least, (rows + kMostChunks - 1) / kMostChunks);
  }
};

/// Number of rows to read and write together: rows of one element per channel are short.
std::int64_t short_rows_at_once(std::int64_t width) {
  return std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, width));
}

template <typename T>
std::vector<T> values(const Tensor& w, std::int64_t n, T otherwise) {
  std::vector<T> out(static_cast<std::size_t>(n), otherwise);
  if (!w.defined() || n == 0) return out;
  const T* at = rows::read(w, 0, w.strides()[0], n, out.data());
  if (at != out.data()) std::copy(at, at + n, out.data());
  return out;
}

/// The moments of channels.
template <typename T>
std::vector<State> moments(const Tensor& x) {
  const Extents e(x);
  std::vector<State> channels(static_cast<std::size_t>(e.c));
  if (e.b > 1) {
    const std::int64_t chunk = e.chunk_rows(e.a, e.b), chunks = (e.a + chunk - 1) / chunk;
    std::vector<State> states(static_cast<std::size_t>(chunks * e.c));
    cpu::parallel_for(chunks * e.c, 1, [&](auto begin, auto end) {
      cpu::Scratch<T> buffer(static_cast<std::size_t>(e.b));
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t c = t / chunks, p = t % chunks;
        State& state = states[static_cast<std::size_t>(t)];
        for (std::int64_t a = p * chunk; a < std::min(e.a, (p + 1) * chunk); ++a) {
          const T* row = rows::read(x, (a * e.c + c) * e.b, 1, e.b, buffer.data());
          State run{static_cast<double>(e.b), cpu::sum(row, e.b) / static_cast<double>(e.b), 0};
          run.squares = cpu::squares(row, run.mean, e.b);
          state.merge(run);
        }
      }
    });
    for (std::int64_t t = 0; t < chunks * e.c; ++t)
      channels[static_cast<std::size_t>(t / chunks)].merge(states[static_cast<std::size_t>(t)]);
    return channels;
  }
  // Σ d and Σ d² of differences to the chunk's first row.
  const std::int64_t chunk = e.chunk_rows(e.a, e.c), chunks = (e.a + chunk - 1) / chunk;
  std::vector<double> partial(static_cast<std::size_t>(3 * chunks * e.c), 0);
  cpu::parallel_for(chunks, 1, [&](auto begin, auto end) {
    const std::int64_t most = short_rows_at_once(e.c);
    cpu::Scratch<T> buffers(static_cast<std::size_t>((2 + most) * e.c));
    T *first = buffers.data(), *differences = first + e.c, *buffer = differences + e.c;
    const T* read = nullptr;
    for (std::int64_t p = begin; p < end; ++p) {
      double *shift = partial.data() + 3 * p * e.c, *total = shift + e.c, *squares = total + e.c;
      const std::int64_t end = std::min(e.a, (p + 1) * chunk);
      for (std::int64_t a = p * chunk; a < end; ++a) {
        const std::int64_t back = (a - p * chunk) % most;
        if (back == 0) read = rows::read(x, a * e.c, 1, std::min(most, end - a) * e.c, buffer);
        const T* row = read + back * e.c;
        if (a == p * chunk) {
          std::copy_n(row, e.c, first);
          std::copy_n(row, e.c, shift);
        }
        for (std::int64_t i = 0; i < e.c; ++i) differences[i] = row[i] - first[i];
        cpu::add_products(total, differences, static_cast<const T*>(nullptr), e.c);
        cpu::add_products(squares, differences, differences, e.c);
      }
    }
  });
  for (std::int64_t p = 0; p < chunks; ++p) {
    const double* shift = partial.data() + 3 * p * e.c;
    const auto count = static_cast<double>(std::min(e.a, (p + 1) * chunk) - p * chunk);
    for (std::int64_t i = 0; i < e.c; ++i) {
      const double total = shift[e.c + i], squares = shift[2 * e.c + i];
      channels[static_cast<std::size_t>(i)].merge(
          {count, shift[i] + total / count, std::max(0.0, squares - total * total / count)});
    }
  }
  return channels;
}

/// Calls body(first channel, number of channels, offset, n) for rows of elements: n of one channel, or one each.
template <typename Body>
void each_row(const Extents& e, const Body& body) {
  const std::int64_t width = e.b > 1 ? e.b : e.c, rows = e.b > 1 ? e.a * e.c : e.a;
  cpu::parallel_for(rows, std::max<std::int64_t>(1, rows::kGrain / std::max<std::int64_t>(1, width)),
                    [&](auto begin, auto end) { body(begin, end, width); });
}

template <typename T>
void forward(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<BatchNormAttrs>();
  const Tensor x = call.in[0].contiguous();
  const Extents e(x);
  std::vector<double> mean, variance;
  if (a.training) {
    for (const State& s : moments<T>(x)) {
      mean.push_back(s.mean);
      variance.push_back(s.count > 0 ? s.squares / s.count : 0);
    }
  } else {
    mean = values<double>(call.in[3], e.c, 0), variance = values<double>(call.in[4], e.c, 0);
  }
  rows::write(out[1], 0, 1, e.c, mean.data());
  std::vector<double> spread = variance;
  if (a.training) std::ranges::transform(variance, spread.begin(), [](double v) { return std::sqrt(v); });
  rows::write(out[2], 0, 1, e.c, spread.data());
  if (x.numel() == 0) return;
  // y = (x - mean) · scale + bias; the rounding error of the mean is added to the bias.
  const std::vector<double> weight = values<double>(call.in[1], e.c, 1), given = values<double>(call.in[2], e.c, 0);
  std::vector<T> center(weight.size()), scale(weight.size()), bias(weight.size());
  for (std::size_t c = 0; c < weight.size(); ++c) {
    const double s = weight[c] / std::sqrt(variance[c] + a.eps);
    center[c] = static_cast<T>(mean[c]), scale[c] = static_cast<T>(s);
    bias[c] = static_cast<T>(given[c] - (std::isfinite(mean[c]) ? (mean[c] - static_cast<double>(center[c])) * s : 0));
  }
  each_row(e, [&](std::int64_t begin, std::int64_t end, std::int64_t n) {
    const std::int64_t most = e.b > 1 ? 1 : short_rows_at_once(n);
    cpu::Scratch<T> buffers(static_cast<std::size_t>(2 * n * most));
    T *buffer = buffers.data(), *y = buffer + n * most;
    for (std::int64_t r = begin; r < end; r += most) {
      const std::int64_t count = std::min(most, end - r);
      const T* row = rows::read(x, r * n, 1, n * count, buffer);
      if (e.b > 1) {
        const auto c = static_cast<std::size_t>(r % e.c);
        const T m = center[c], s = scale[c], b = bias[c];
        for (std::int64_t i = 0; i < n; ++i) y[i] = (row[i] - m) * s + b;
      } else {
        const T *m = center.data(), *s = scale.data(), *b = bias.data();
        T* to = y;
        for (std::int64_t k = 0; k < count; ++k, row += n, to += n) {
          for (std::int64_t i = 0; i < n; ++i) to[i] = (row[i] - m[i]) * s[i] + b[i];
        }
      }
      rows::write(out[0], r * n, 1, n * count, y);
    }
  });
}

/// Σ g and Σ g (x - mean) of each channel; all sums of the first kind come first.
template <typename T>
std::vector<double> gradient_sums(const Tensor& g, const Tensor& x, const std::vector<double>& mean) {
  const Extents e(x);
  const std::int64_t width = e.b > 1 ? e.b : e.c, chunk = e.chunk_rows(e.a, width), chunks = (e.a + chunk - 1) / chunk;
  std::vector<double> partial(static_cast<std::size_t>(2 * chunks * e.c), 0),
      sums(static_cast<std::size_t>(2 * e.c), 0);
  const std::int64_t per_chunk = e.b > 1 ? e.c : 1;
  cpu::parallel_for(chunks * per_chunk, 1, [&](auto begin, auto end) {
    const std::int64_t most = e.b > 1 ? 1 : short_rows_at_once(width);
    cpu::Scratch<T> buffers(static_cast<std::size_t>((2 * most + 1) * width));
    T *differences = buffers.data(), *buffer_g = differences + width, *buffer_x = buffer_g + most * width;
    const T *read_g = nullptr, *read_x = nullptr;
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t p = t / per_chunk, c = t % per_chunk;
      double *total = partial.data() + 2 * p * e.c, *products = total + e.c;
      const std::int64_t end = std::min(e.a, (p + 1) * chunk);
      for (std::int64_t a = p * chunk; a < end; ++a) {
        const std::int64_t at = (a * per_chunk + c) * width, back = (a - p * chunk) % most;
        if (back == 0) {
          const std::int64_t n = std::min(most, end - a) * width;
          read_g = rows::read(g, at, 1, n, buffer_g), read_x = rows::read(x, at, 1, n, buffer_x);
        }
        const T *grad = read_g + back * width, *row = read_x + back * width;
        if (e.b > 1) {
          const double m = mean[static_cast<std::size_t>(c)];
          for (std::int64_t i = 0; i < width; ++i) differences[i] = static_cast<T>(static_cast<double>(row[i]) - m);
        } else {
          const double* m = mean.data();
          for (std::int64_t i = 0; i < width; ++i) differences[i] = static_cast<T>(static_cast<double>(row[i]) - m[i]);
        }
        if (e.b > 1) {
          total[c] += cpu::sum(grad, width);
          products[c] += cpu::dot(grad, differences, width);
        } else {
          cpu::add_products(total, grad, static_cast<const T*>(nullptr), width);
          cpu::add_products(products, grad, differences, width);
        }
      }
    }
  });
  for (std::int64_t p = 0; p < chunks; ++p) {
    for (std::int64_t i = 0; i < 2 * e.c; ++i)
      sums[static_cast<std::size_t>(i)] += partial[static_cast<std::size_t>(2 * p * e.c + i)];
  }
  return sums;
}

template <typename T>
void backward(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<BatchNormBackwardAttrs>();
  const Tensor g = call.in[0].contiguous(), x = call.in[1].contiguous();
  const Extents e(x);
  const std::vector<double> weight = values<double>(call.in[2], e.c, 1), mean = values<double>(call.in[3], e.c, 0),
                            spread = values<double>(call.in[4], e.c, 0);
  std::vector<double> sums(static_cast<std::size_t>(2 * e.c), 0);
  if (x.numel() > 0 && (a.training || a.wants_weight || a.wants_bias)) sums = gradient_sums<T>(g, x, mean);
  const auto count = static_cast<double>(e.a * e.b);
  // dx = g · scale + normed x · x_scale + level
  std::vector<T> scale(weight.size(), 0), x_scale(weight.size(), 0), level(weight.size(), 0), center(weight.size(), 0),
      reciprocal(weight.size(), 0);
  std::vector<double> dweight(weight.size(), 0);
  for (std::size_t c = 0; c < weight.size(); ++c) {
    const double variance = a.training ? spread[c] * spread[c] : spread[c];
    const double rstd = 1 / std::sqrt(variance + a.eps), product = sums[weight.size() + c];
    dweight[c] = product * rstd;
    scale[c] = static_cast<T>(weight[c] * rstd);
    center[c] = static_cast<T>(mean[c]), reciprocal[c] = static_cast<T>(rstd);
    if (!a.training || count == 0) continue;
    x_scale[c] = static_cast<T>(-weight[c] * rstd * rstd * product / count);
    level[c] = static_cast<T>(-weight[c] * rstd * sums[c] / count);
  }
  std::size_t next = 1;
  if (a.wants_weight) rows::write(out[next++], 0, 1, e.c, dweight.data());
  if (a.wants_bias) rows::write(out[next], 0, 1, e.c, sums.data());
  if (x.numel() == 0) return;
  each_row(e, [&](std::int64_t begin, std::int64_t end, std::int64_t n) {
    const std::int64_t most = e.b > 1 ? 1 : short_rows_at_once(n), room = most * n;
    cpu::Scratch<T> buffers(static_cast<std::size_t>(3 * room));
    T *buffer_g = buffers.data(), *buffer_x = buffer_g + room, *dx = buffer_x + room;
    for (std::int64_t r = begin; r < end; r += most) {
      const std::int64_t count = std::min(most, end - r);
      const T* grad = rows::read(g, r * n, 1, n * count, buffer_g);
      const T* row = rows::read(x, r * n, 1, n * count, buffer_x);
      if (e.b > 1) {
        const auto c = static_cast<std::size_t>(r % e.c);
        const T s = scale[c], k = x_scale[c], l = level[c], m = center[c], by = reciprocal[c];
        for (std::int64_t i = 0; i < n; ++i) dx[i] = grad[i] * s + ((row[i] - m) * by * k + l);
      } else {
        const T *s = scale.data(), *k = x_scale.data(), *l = level.data(), *m = center.data(), *by = reciprocal.data();
        T* to = dx;
        for (std::int64_t j = 0; j < count; ++j, grad += n, row += n, to += n) {
          for (std::int64_t i = 0; i < n; ++i) to[i] = grad[i] * s[i] + ((row[i] - m[i]) * by[i] * k[i] + l[i]);
        }
      }
      rows::write(out[0], r * n, 1, n * count, dx);
    }
  });
}

}  // namespace

void forward_cpu(const OpCall& call, std::span<Tensor> out) {
  if (call.in[0].dtype() == f64)
    forward<double>(call, out);
  else
    forward<float>(call, out);
}

void backward_cpu(const OpCall& call, std::span<Tensor> out) {
  if (call.in[1].dtype() == f64)
    backward<double>(call, out);
  else
    backward<float>(call, out);
}

void update_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<BatchNormUpdateAttrs>();
  double factor = a.momentum;
  if (call.in[4].defined()) {
    std::int64_t& batches = *out[2].host<std::int64_t>();
    ++batches;
    if (a.cumulative) factor = 1 / static_cast<double>(batches);
  }
  const std::int64_t n = out[0].numel();
  for (std::size_t k : {0u, 1u}) {
    std::vector<double> running = values<double>(out[k], n, 0);
    const std::vector<double> now = values<double>(call.in[2 + k], n, 0);
    for (std::size_t i = 0; i < running.size(); ++i)
      running[i] += (k == 1 ? now[i] * now[i] * a.unbiased - running[i] : now[i] - running[i]) * factor;
    rows::write(out[k], 0, n == 0 ? 1 : out[k].strides()[0], n, running.data());
  }
}

}  // namespace etna::normalization::batch
