#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/resample/internal/resample.h>
#include <etna/tensor/ops/rows/internal/rows.h>

// For each row of the result, first adds up whole rows of x with the weights of the other two dimensions, then combines
// elements of that sum along the row. The first loop always runs over adjacent memory; the second does if channels are
// adjacent.
namespace etna::resample {
namespace {

/// y[o, :] = Σ weight · row[at, :] for the positions of a row, each `inner` elements wide.
template <typename T>
void along_row(const Taps& taps, const std::vector<T>& weights, const T* row, std::int64_t count, std::int64_t inner,
               T* y) {
  for (std::int64_t o = 0; o < count; ++o) {
    const auto begin = static_cast<std::size_t>(taps.start[static_cast<std::size_t>(o)]),
               end = static_cast<std::size_t>(taps.start[static_cast<std::size_t>(o) + 1]);
    if (inner == 1) {
      T sum = 0;
      for (std::size_t k = begin; k < end; ++k) sum += weights[k] * row[taps.at[k]];
      y[o] = sum;
      continue;
    }
    T* to = y + o * inner;
    std::fill_n(to, inner, T(0));
    for (std::size_t k = begin; k < end; ++k) cpu::add_scaled(to, row + taps.at[k] * inner, weights[k], inner);
  }
}

bool is_identity(const Taps& taps, std::int64_t from) {
  if (static_cast<std::int64_t>(taps.at.size()) != from || taps.start.size() != taps.at.size() + 1) return false;
  for (std::size_t i = 0; i < taps.at.size(); ++i) {
    if (taps.start[i + 1] != static_cast<std::int32_t>(i) + 1 || taps.at[i] != static_cast<std::int32_t>(i) ||
        taps.weight[i] != 1)
      return false;
  }
  return true;
}

template <typename T>
void run(const ResampleAttrs& map, const Tensor& x, Tensor& y) {
  const Taps depth = taps_of(map, 0), height = taps_of(map, 1), width = taps_of(map, 2);
  const std::vector<T> weights(width.weight.begin(), width.weight.end());
  const std::int64_t inner = x.shape()[4], from_d = x.shape()[1], from_h = x.shape()[2], from_w = x.shape()[3];
  const std::int64_t to_d = y.shape()[1], to_h = y.shape()[2], to_w = y.shape()[3];
  const std::int64_t n_from = from_w * inner, n_to = to_w * inner, rows = y.shape()[0] * to_d * to_h;
  const bool same_width = is_identity(width, from_w);
  cpu::parallel_for(rows, std::max<std::int64_t>(1, rows::kGrain / (n_from + n_to)), [&](auto begin, auto end) {
    cpu::Scratch<T> buffers(static_cast<std::size_t>(2 * n_from + n_to));
    T *read_buffer = buffers.data(), *sum = read_buffer + n_from, *result = sum + n_from;
    for (std::int64_t r = begin; r < end; ++r) {
      const auto h = static_cast<std::size_t>(r % to_h), d = static_cast<std::size_t>(r / to_h % to_d);
      const std::int64_t outer = r / (to_h * to_d);
      const T* row = sum;
      bool first = true;
      for (std::int32_t i = depth.start[d]; i < depth.start[d + 1]; ++i) {
        for (std::int32_t j = height.start[h]; j < height.start[h + 1]; ++j) {
          const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
          const T weight = static_cast<T>(depth.weight[a] * height.weight[b] * map.factor);
          const std::int64_t offset = ((outer * from_d + depth.at[a]) * from_h + height.at[b]) * n_from;
          const T* from = rows::read(x, offset, 1, n_from, read_buffer);
          const bool only = depth.start[d + 1] - depth.start[d] == 1 && height.start[h + 1] - height.start[h] == 1;
          if (only && weight == T(1)) {
            row = from;
          } else if (first) {
            for (std::int64_t k = 0; k < n_from; ++k) sum[k] = from[k] * weight;
          } else {
            for (std::int64_t k = 0; k < n_from; ++k) sum[k] += from[k] * weight;
          }
          first = false;
        }
      }
      if (first) std::fill_n(sum, n_from, T(0));
      if (!same_width) along_row(width, weights, row, to_w, inner, result);
      rows::write(y, r * n_to, 1, n_to, same_width ? row : result);
    }
  });
}

}  // namespace

void map_cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  const Tensor x = call.in[0].contiguous();
  if (x.dtype() == f64)
    run<double>(call.as<ResampleAttrs>(), x, out[0]);
  else
    run<float>(call.as<ResampleAttrs>(), x, out[0]);
}

}  // namespace etna::resample
