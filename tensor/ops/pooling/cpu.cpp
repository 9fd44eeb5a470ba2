#include <algorithm>
#include <limits>
#include <vector>

#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/pooling/internal/cpu_max_pool.h>
#include <etna/tensor/ops/pooling/internal/max_pool.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// f32 and bf16 have vector code (tensor/ops/pooling/internal/cpu_max_pool.h), for adjacent channels and for rows of
// adjacent elements. The rest (f64, f16 with adjacent channels, adaptive windows) is computed element by element.
namespace etna::pooling {
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

/// take() for elements of one window that come in any order; the result is that of take() in the order of positions.
template <typename T>
void take_unordered(T value, std::int32_t at, T& best, std::int32_t& where) {
  const bool nan = value != value, before = at < where;
  const bool larger = value > best || (value == best && before) || (nan && (best == best || !before));
  best = larger ? value : best;
  where = larger ? at : where;
}

template <typename T>
void forward(const PoolAttrs& windows, const Tensor& x, Tensor& y, Tensor& indices) {
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
      // A column in which nothing exceeds -∞ reports its first position.
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

/// The windows of one row of results: each covers the same lines of d and h.
struct WindowRow {
  Span d, h;
  std::int64_t outer;

  WindowRow(const PoolAttrs& windows, std::int64_t row)
      : d(span_of(windows.axes[0], windows.adaptive, row / windows.axes[1].to % windows.axes[0].to)),
        h(span_of(windows.axes[1], windows.adaptive, row % windows.axes[1].to)),
        outer(row / (static_cast<std::int64_t>(windows.axes[1].to) * windows.axes[0].to)) {}

  template <typename Body>
  void each_line(const PoolAttrs& windows, const Body& body) const {
    for (std::int64_t i = d.begin; i < d.end; i += d.step) {
      for (std::int64_t j = h.begin; j < h.end; j += h.step) body(i * windows.axes[1].from + j);
    }
  }
};

/// Channels are adjacent. @param T float or the bits of bf16
template <typename T>
void forward_pixels(const PoolAttrs& windows, const T* x, std::int64_t channels, std::int64_t outer, T* y,
                    std::int32_t* where) {
  const Window &wd = windows.axes[0], &wh = windows.axes[1], &ww = windows.axes[2];
  const std::int64_t rows = outer * wd.to * wh.to, row_size = ww.to * channels;
  const std::int64_t plane = static_cast<std::int64_t>(wd.from) * wh.from * ww.from;
  cpu::parallel_for(rows, std::max<std::int64_t>(1, rows::kGrain / (4 * row_size)), [&](auto begin, auto end) {
    std::vector<const T*> pixels;
    std::vector<std::int32_t> places;
    for (std::int64_t r = begin; r < end; ++r) {
      const WindowRow row(windows, r);
      const T* image = x + row.outer * plane * channels;
      for (std::int64_t o = 0; o < ww.to; ++o) {
        const Span w = span_of(ww, windows.adaptive, o);
        pixels.clear(), places.clear();
        row.each_line(windows, [&](std::int64_t line) {
          for (std::int64_t at = w.begin; at < w.end; at += w.step) {
            places.push_back(static_cast<std::int32_t>(line * ww.from + at));
            pixels.push_back(image + places.back() * channels);
          }
        });
        const auto first = static_cast<std::int32_t>((row.d.begin * wh.from + row.h.begin) * ww.from + w.begin);
        cpu::max_pool_pixels(pixels.data(), places.data(), static_cast<std::int64_t>(places.size()), channels, first,
                             y + r * row_size + o * channels, where + r * row_size + o * channels);
      }
    }
  });
}

/// Elements of a line are adjacent; lines are copied into a buffer padded with -∞.
void forward_lines(const PoolAttrs& windows, const Tensor& x, Tensor& y, std::int32_t* where) {
  constexpr std::int64_t kVector = 32;  // more elements than any vector has
  const Window &wd = windows.axes[0], &wh = windows.axes[1], &ww = windows.axes[2];
  const std::int64_t rows = y.shape()[0] * wd.to * wh.to,
                     plane = static_cast<std::int64_t>(wd.from) * wh.from * ww.from;
  const std::int64_t before = ww.padding;
  const std::int64_t width =
      std::max<std::int64_t>(before + ww.from, (ww.to + kVector) * static_cast<std::int64_t>(ww.stride) +
                                                   ww.kernel * std::int64_t{ww.dilation});
  const std::int64_t lines = static_cast<std::int64_t>(wd.kernel) * wh.kernel;
  cpu::parallel_for(rows, std::max<std::int64_t>(1, rows::kGrain / (4 * ww.from)), [&](auto begin, auto end) {
    cpu::Scratch<float> padded(static_cast<std::size_t>(lines * width), -std::numeric_limits<float>::infinity());
    cpu::Scratch<float> best(static_cast<std::size_t>(ww.to));
    cpu::Scratch<std::int32_t> columns(static_cast<std::size_t>(ww.to + kVector), 0), first(columns.size());
    for (std::int64_t o = 0; o < ww.to; ++o)
      columns[static_cast<std::size_t>(o)] = static_cast<std::int32_t>(span_of(ww, false, o).begin);
    std::vector<const float*> starts;
    std::vector<std::int32_t> places;
    for (std::int64_t r = begin; r < end; ++r) {
      const WindowRow row(windows, r);
      starts.clear(), places.clear();
      row.each_line(windows, [&](std::int64_t line) {
        float* start = padded.data() + static_cast<std::int64_t>(starts.size()) * width;
        const float* from = rows::read(x, row.outer * plane + line * ww.from, 1, ww.from, start + before);
        if (from != start + before) std::copy_n(from, ww.from, start + before);
        starts.push_back(start);
        places.push_back(static_cast<std::int32_t>(line * ww.from - before));
      });
      const auto corner = static_cast<std::int32_t>((row.d.begin * wh.from + row.h.begin) * ww.from);
      for (std::size_t o = 0; o < first.size(); ++o) first[o] = corner + columns[o];
      cpu::max_pool_row({starts.data(), places.data(), static_cast<std::int64_t>(starts.size()), ww.kernel, ww.dilation,
                         ww.stride, ww.to},
                        first.data(), best.data(), where + r * ww.to);
      rows::write(y, r * ww.to, 1, ww.to, best.data());
    }
  });
}

/// Returns false if vector code does not apply.
bool forward_by_vectors(const PoolAttrs& windows, const Tensor& x, Tensor& y, std::int32_t* where) {
  const std::int64_t channels = y.shape()[4];
  if (channels > 1) {
    if (x.dtype() == f32)
      forward_pixels(windows, x.host<float>(), channels, x.shape()[0], y.host<float>(), where);
    else if (x.dtype() == bf16)
      forward_pixels(windows, &x.host<BFloat16>()->bits, channels, x.shape()[0], &y.host<BFloat16>()->bits, where);
    else
      return false;
    return true;
  }
  // With a long kernel over a short line, the buffer would be mostly padding.
  const Window& w = windows.axes[2];
  const std::int64_t padded = std::int64_t{w.kernel} * w.dilation + 32 * std::int64_t{w.stride};
  if (x.dtype() == f64 || windows.adaptive || padded > 4096 || w.kernel > 64) return false;
  if (static_cast<std::int64_t>(windows.axes[0].kernel) * windows.axes[1].kernel > 64) return false;
  forward_lines(windows, x, y, where);
  return true;
}

/// True if element i of a plane is in window o.
bool inside(const PoolAttrs& windows, std::int64_t o, std::int64_t i) {
  for (int d = 2; d >= 0; --d) {
    const Window& w = windows.axes[d];
    const std::int64_t from_start = i % w.from - (o % w.to * w.stride - w.padding);
    if (from_start < 0 || from_start >= w.kernel) return false;
    i /= w.from, o /= w.to;
  }
  return true;
}

/// One task per plane visits the windows in order: no two tasks write one element.
template <typename T>
void back(const PoolAttrs& windows, const Tensor& g, const Tensor& indices, Tensor& y) {
  const std::int64_t inner = y.shape()[4];
  std::int64_t plane = inner, pooled = 1;
  for (const Window& w : windows.axes) plane *= w.from, pooled *= w.to;
  const std::int64_t most = plane / std::max<std::int64_t>(1, inner);
  const std::int32_t* where = indices.host<std::int32_t>();
  // If there are few planes, blocks of channels become tasks.
  const std::int64_t block = std::min<std::int64_t>(inner, 64), blocks = (inner + block - 1) / block;
  const bool whole = blocks == 1;  // a task reads all values of its planes
  cpu::parallel_for(
      y.shape()[0] * blocks, std::max<std::int64_t>(1, rows::kGrain / (plane / blocks)), [&](auto begin, auto end) {
        cpu::Scratch<T> buffers(static_cast<std::size_t>(most * block + (whole ? pooled * inner : block)));
        T *sums = buffers.data(), *buffer = sums + most * block;
        for (std::int64_t t = begin; t < end; ++t) {
          const std::int64_t outer = t / blocks, first = t % blocks * block;
          const std::int64_t width = std::min(block, inner - first);
          std::fill_n(sums, most * width, T(0));
          const T* all = whole ? rows::read(g, outer * pooled * inner, 1, pooled * inner, buffer) : nullptr;
          for (std::int64_t o = 0; o < pooled; ++o) {
            const std::int64_t at = (outer * pooled + o) * inner + first;
            const T* values = whole ? all + o * inner : rows::read(g, at, 1, width, buffer);
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
  if (forward_by_vectors(call.as<PoolAttrs>(), x, out[0], out[1].host<std::int32_t>())) return;
  if (x.dtype() == f64)
    forward<double>(call.as<PoolAttrs>(), x, out[0], out[1]);
  else
    forward<float>(call.as<PoolAttrs>(), x, out[0], out[1]);
}

void max_pool_back_cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  const Tensor g = call.in[0].contiguous(), indices = call.in[1].contiguous();
  if (g.dtype() == f64)
    back<double>(call.as<PoolAttrs>(), g, indices, out[0]);
  else
    back<float>(call.as<PoolAttrs>(), g, indices, out[0]);
}

}  // namespace etna::pooling
