#include <algorithm>
#include <limits>
#include <vector>

#include <etna/device/cpu/scratch.h>
#include <etna/tensor/ops/pool/max_pool.h>
#include <etna/tensor/ops/rows/rows.h>

// Where channels are adjacent, the inner loops run over them. Otherwise a row of windows first takes the maxima of
// whole columns, over adjacent elements, and then combines the columns of each window.
namespace etna::pool {
namespace {

/// The window of result `o`: elements begin, begin + step, ... below end.
struct Span {
  std::int64_t begin, end, step;
};

Span span_of(const Window& w, bool adaptive, std::int64_t o) {
  if (adaptive) return {o * w.from / w.to, ((o + 1) * w.from + w.to - 1) / w.to, 1};
  const std::int64_t start = o * w.stride - w.padding;
  const std::int64_t end = std::min<std::int64_t>(start + (w.kernel - 1ll) * w.dilation + 1, w.from);
  return {start < 0 ? start + (-start + w.dilation - 1) / w.dilation * w.dilation : start, end, w.dilation};
}

template <typename T>
void take(T value, std::int32_t at, T& best, std::int32_t& where) {
  const bool larger = (value > best) | (value != value);
  best = larger ? value : best;
  where = larger ? at : where;
}

/// Elements of one window in any order, with the result of take() in the order of their places.
template <typename T>
void take_unordered(T value, std::int32_t at, T& best, std::int32_t& where) {
  const bool nan = value != value, before = at < where;
  const bool larger = value > best || (value == best && before) || (nan && (best == best || !before));
  best = larger ? value : best;
  where = larger ? at : where;
}

template <typename T>
void forward(const Windows& windows, const Tensor& x, Tensor& y, Tensor& indices) {
  const Window &wd = windows.axes[0], &wh = windows.axes[1], &ww = windows.axes[2];
  const std::int64_t inner = y.shape()[4], n_from = ww.from * inner, n_to = ww.to * inner;
  const std::int64_t rows = y.shape()[0] * wd.to * wh.to;
  std::int32_t* where_to = indices.host<std::int32_t>();
  std::vector<Span> columns;
  for (std::int64_t o = 0; o < ww.to; ++o) columns.push_back(span_of(ww, windows.adaptive, o));
  cpu::parallel_for(rows, std::max<std::int64_t>(1, rows::kGrain / (4 * n_from)), [&](auto begin, auto end) {
    cpu::Scratch<T> buffers(static_cast<std::size_t>(2 * n_from + n_to));
    T *buffer = buffers.data(), *best = buffer + n_from, *column_best = best + n_to;
    const std::int64_t column_count = inner == 1 ? ww.from : 0;
    cpu::Scratch<std::int32_t> places_of_columns(static_cast<std::size_t>(column_count));
    std::int32_t* column_where = places_of_columns.data();
    for (std::int64_t r = begin; r < end; ++r) {
      const Span d = span_of(wd, windows.adaptive, r / wh.to % wd.to), h = span_of(wh, windows.adaptive, r % wh.to);
      const std::int64_t outer = r / (wh.to * wd.to);
      std::int32_t* where = where_to + r * n_to;
      std::fill_n(best, n_to, -std::numeric_limits<T>::infinity());
      for (std::int64_t o = 0; o < ww.to; ++o) {
        const auto first = static_cast<std::int32_t>((d.begin * wh.from + h.begin) * ww.from +
                                                     columns[static_cast<std::size_t>(o)].begin);
        std::fill_n(where + o * inner, inner, first);
      }
      // A column without a larger element than -∞ says the place of its first one.
      for (std::int64_t w = 0; w < column_count; ++w) {
        column_best[w] = -std::numeric_limits<T>::infinity();
        column_where[w] = static_cast<std::int32_t>((d.begin * wh.from + h.begin) * ww.from + w);
      }
      for (std::int64_t i = d.begin; i < d.end; i += d.step) {
        for (std::int64_t j = h.begin; j < h.end; j += h.step) {
          const std::int64_t line = i * wh.from + j;
          const T* row = rows::read(x, (outer * wd.from * wh.from + line) * n_from, 1, n_from, buffer);
          if (inner == 1) {
            const auto start = static_cast<std::int32_t>(line * ww.from);
            const auto width = static_cast<std::int32_t>(ww.from);
            for (std::int32_t w = 0; w < width; ++w) take(row[w], start + w, column_best[w], column_where[w]);
            continue;
          }
          const std::int64_t places = windows.adaptive ? (ww.from + ww.to - 1) / ww.to + 1 : ww.kernel;
          for (std::int64_t k = 0; k < places; ++k) {
            for (std::int64_t o = 0; o < ww.to; ++o) {
              const Span& w = columns[static_cast<std::size_t>(o)];
              const std::int64_t at = w.begin + k * w.step;
              if (at >= w.end) continue;
              const auto index = static_cast<std::int32_t>(line * ww.from + at);
              const T* values = row + at * inner;
              for (std::int64_t c = 0; c < inner; ++c)
                take(values[c], index, best[o * inner + c], where[o * inner + c]);
            }
          }
        }
      }
      for (std::int64_t o = 0; o < ww.to && inner == 1; ++o) {
        const Span& w = columns[static_cast<std::size_t>(o)];
        for (std::int64_t at = w.begin; at < w.end; at += w.step)
          take_unordered(column_best[at], column_where[at], best[o], where[o]);
      }
      rows::write(y, r * n_to, 1, n_to, best);
    }
  });
}

/// True if element i of a plane is in window o.
bool inside(const Windows& windows, std::int64_t o, std::int64_t i) {
  for (int d = 2; d >= 0; --d) {
    const Window& w = windows.axes[d];
    const std::int64_t from_start = i % w.from - (o % w.to * w.stride - w.padding);
    if (from_start < 0 || from_start >= w.kernel) return false;
    i /= w.from, o /= w.to;
  }
  return true;
}

/// One task a plane, in the order of the windows: no two tasks write one element.
template <typename T>
void back(const Windows& windows, const Tensor& g, const Tensor& indices, Tensor& y) {
  const std::int64_t inner = y.shape()[4];
  std::int64_t plane = inner, pooled = 1;
  for (const Window& w : windows.axes) plane *= w.from, pooled *= w.to;
  const std::int64_t most = plane / std::max<std::int64_t>(1, inner);
  const std::int32_t* where = indices.host<std::int32_t>();
  // Channels are shared out in blocks if there are few planes.
  const std::int64_t block = std::min<std::int64_t>(inner, 64), blocks = (inner + block - 1) / block;
  cpu::parallel_for(y.shape()[0] * blocks, std::max<std::int64_t>(1, rows::kGrain / (plane / blocks)),
                    [&](auto begin, auto end) {
                      cpu::Scratch<T> buffers(static_cast<std::size_t>(most * block + std::max(block, pooled)));
                      T *sums = buffers.data(), *buffer = sums + most * block;
                      for (std::int64_t t = begin; t < end; ++t) {
                        const std::int64_t outer = t / blocks, first = t % blocks * block;
                        const std::int64_t width = std::min(block, inner - first);
                        std::fill_n(sums, most * width, T(0));
                        const T* plane_values = inner == 1 ? rows::read(g, outer * pooled, 1, pooled, buffer) : nullptr;
                        for (std::int64_t o = 0; o < pooled; ++o) {
                          const std::int64_t at = (outer * pooled + o) * inner + first;
                          const T* values = inner == 1 ? plane_values + o : rows::read(g, at, 1, width, buffer);
                          for (std::int64_t c = 0; c < width; ++c) {
                            const std::int64_t i = where[at + c];
                            if (i < 0 || i >= most || (windows.unpool && !inside(windows, o, i))) continue;
                            T& sum = sums[i * width + c];
                            sum = windows.unpool ? values[c] : sum + values[c];
                          }
                        }
                        if (width == inner) {
                          rows::write(y, outer * plane, 1, plane, sums);
                          continue;
                        }
                        for (std::int64_t i = 0; i < most; ++i)
                          rows::write(y, outer * plane + i * inner + first, 1, width, sums + i * width);
                      }
                    });
}

}  // namespace

void max_pool_cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  const Tensor x = call.in[0].contiguous();
  if (x.dtype() == f64)
    forward<double>(call.as<Windows>(), x, out[0], out[1]);
  else
    forward<float>(call.as<Windows>(), x, out[0], out[1]);
}

void max_pool_back_cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  const Tensor g = call.in[0].contiguous(), indices = call.in[1].contiguous();
  if (g.dtype() == f64)
    back<double>(call.as<Windows>(), g, indices, out[0]);
  else
    back<float>(call.as<Windows>(), g, indices, out[0]);
}

}  // namespace etna::pool
