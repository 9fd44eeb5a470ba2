#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/tensor.h>

/// Rows of strided tensors for CPU kernels. Copies a row to contiguous memory of the compute type, runs the kernel, and
/// stores the result.
namespace etna::rows {

template <typename T, typename S>
T convert(S value) {
  if constexpr (std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>) {
    return static_cast<T>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != S(0);
  } else {
    return static_cast<T>(value);
  }
}

/// Converts n consecutive elements.
template <typename T, typename S>
void convert_run(const S* from, T* to, std::int64_t n) {
  if constexpr (std::is_same_v<S, BFloat16> && std::is_same_v<T, float>) {
    cpu::widen_bf16(&from->bits, to, n);
  } else if constexpr (std::is_same_v<S, float> && std::is_same_v<T, BFloat16>) {
    cpu::narrow_bf16(from, &to->bits, n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = convert<T>(from[i]);
  }
}

/// Calls f with a zero of a dtype's compute type: double for f64, float for the other floats, std::int64_t for integers
/// and bool.
template <typename F>
void visit_compute(DType t, F&& f) {
  if (t == f64)
    f(double{});
  else if (is_floating(t))
    f(float{});
  else
    f(std::int64_t{});
}

/// n elements of x as T, starting at element `offset` (relative to x's first), with distance `step`: in place, or
/// converted into `buffer`.
template <typename T>
const T* read(const Tensor& x, std::int64_t offset, std::int64_t step, std::int64_t n, T* buffer) {
  return visit(x.dtype(), [&](auto zero) -> const T* {
    using S = decltype(zero);
    const S* from = x.host<S>() + offset;
    if (step == 1) {
      if constexpr (std::is_same_v<S, T>) return from;
      convert_run(from, buffer, n);
    } else if (step == 0) {
      std::fill_n(buffer, n, convert<T>(*from));
    } else {
      for (std::int64_t i = 0; i < n; ++i) buffer[i] = convert<T>(from[i * step]);
    }
    return buffer;
  });
}

/// Stores n values in y, starting at element `offset` with distance `step`.
template <typename T>
void write(Tensor& y, std::int64_t offset, std::int64_t step, std::int64_t n, const T* values) {
  visit(y.dtype(), [&](auto zero) {
    using S = decltype(zero);
    S* to = y.host<S>() + offset;
    if (step == 1) {
      convert_run(values, to, n);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i * step] = convert<S>(values[i]);
    }
  });
}

/// Offset of element `index` of an iteration over `shape`, for `strides`.
inline std::int64_t offset_of(const Shape& shape, const Strides& strides, std::int64_t index) {
  std::int64_t offset = 0;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    offset += index % shape[d] * strides[d];
    index /= shape[d];
  }
  return offset;
}

/// Rows of x along `dim`, counted in row-major order of the other dimensions.
struct Rows {
  Shape others;
  Strides strides;
  std::int64_t step = 1, length = 1;

  Rows(const Tensor& x, int dim) : others(x.shape()), strides(x.strides()) {
    if (x.dim() == 0) return;
    length = others[dim];
    step = strides[dim];
    others.erase(dim);
    strides.erase(dim);
  }
  std::int64_t count() const { return numel(others); }
  std::int64_t offset(std::int64_t row) const { return offset_of(others, strides, row); }
};

/// Noncontiguous rows are processed this many at a time: neighbours share cache lines.
inline constexpr std::int64_t kTile = 16;
/// Fewest elements per thread.
inline constexpr std::int64_t kGrain = 1 << 14;

/// Calls body(std::array<const T*, inputs>, T* y, n) for every row along `dim` of inputs of one shape. The values that
/// body writes to y become that row of `out`, which is contiguous. y may alias the last input's storage only if body
/// reads before it writes.
template <typename T, std::size_t inputs, typename Body>
void along(const std::array<Tensor, inputs>& in, Tensor& out, int dim, const Body& body) {
  if (out.numel() == 0) return;
  std::vector<Rows> from;
  for (const Tensor& x : in) from.emplace_back(x, dim);
  Rows to(out, dim);
  std::int64_t n = to.length, count = to.count();
  bool tiled = to.step != 1;
  for (const Rows& r : from) tiled = tiled || r.step != 1;
  std::int64_t tile = tiled ? kTile : 1;
  std::int64_t tiles = (count + tile - 1) / tile;
  bool in_place = to.step == 1 && out.dtype() == dtype_of<T>();
  cpu::parallel_for(tiles, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, n * tile)),
                    [&](std::int64_t begin, std::int64_t end) {
                      cpu::Scratch<T> buffers(static_cast<std::size_t>((inputs + 1) * tile * n));
                      T* results = buffers.data() + static_cast<std::ptrdiff_t>(inputs) * tile * n;
                      for (std::int64_t t = begin; t < end; ++t) {
                        std::int64_t first = t * tile, taken = std::min(tile, count - first);
                        const T* lies[inputs][kTile];
                        for (std::size_t k = 0; k < inputs; ++k) {
                          T* buffer = buffers.data() + static_cast<std::ptrdiff_t>(k) * tile * n;
                          std::int64_t offsets[kTile];
                          for (std::int64_t r = 0; r < taken; ++r) offsets[r] = from[k].offset(first + r);
                          if (from[k].step == 1 || taken == 1) {
                            for (std::int64_t r = 0; r < taken; ++r)
                              lies[k][r] = read(in[k], offsets[r], from[k].step, n, buffer + r * n);
                            continue;
                          }
                          visit(in[k].dtype(), [&](auto zero) {
                            const auto* x = in[k].template host<decltype(zero)>();
                            for (std::int64_t i = 0; i < n; ++i) {
                              for (std::int64_t r = 0; r < taken; ++r)
                                buffer[r * n + i] = convert<T>(x[offsets[r] + i * from[k].step]);
                            }
                          });
                          for (std::int64_t r = 0; r < taken; ++r) lies[k][r] = buffer + r * n;
                        }
                        std::int64_t offsets[kTile];
                        for (std::int64_t r = 0; r < taken; ++r) {
                          offsets[r] = to.offset(first + r);
                          std::array<const T*, inputs> row;
                          for (std::size_t k = 0; k < inputs; ++k) row[k] = lies[k][r];
                          T* y = results + r * n;
                          if constexpr (!std::is_same_v<T, bool>) {
                            if (in_place) y = out.host<T>() + offsets[r];
                          }
                          body(row, y, n);
                        }
                        if (in_place) continue;
                        visit(out.dtype(), [&](auto zero) {
                          using S = decltype(zero);
                          S* y = out.host<S>();
                          for (std::int64_t i = 0; i < n; ++i) {
                            for (std::int64_t r = 0; r < taken; ++r)
                              y[offsets[r] + i * to.step] = convert<S>(results[r * n + i]);
                          }
                        });
                      }
                    });
}

}  // namespace etna::rows
