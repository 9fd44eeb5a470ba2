#pragma once

#include <cstdint>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/resample/internal/planes.h>

/// Linear maps along one to three spatial dimensions: every result is a weighted sum of elements, and each weight is
/// the product of one weight per dimension. Average pooling, interpolation and padding are such maps. The gradient of a
/// map is its transpose, which the same kernels compute, so maps can be differentiated any number of times.
namespace etna::resample {

/// How a position of the result reads the input. Numbered as in shaders/resample/resample.comp.
enum class Kind : std::uint32_t {
  window,         ///< mean of `kernel` elements, every `stride`
  adaptive,       ///< mean of elements [⌊o·from/to⌋, ⌈(o+1)·from/to⌉)
  nearest,        ///< element ⌊o·scale⌋
  nearest_exact,  ///< element ⌊(o+½)·scale⌋
  linear,         ///< between two elements
  cubic,          ///< between four elements (Keys 1981, a = -¾), those outside repeat the edge
  reflect,        ///< padding that mirrors at the edge
  replicate,      ///< padding that repeats the edge
  circular,       ///< padding from the other end
};

/// The divisor of a window's sum.
enum class Divisor : std::uint32_t { elements, with_padding, none };

/// One dimension of a map.
struct Axis {
  std::int32_t from = 1, to = 1;                     ///< sizes of the input and of the result
  std::int32_t kernel = 1, stride = 1, padding = 0;  ///< for windows; for padding modes, elements before the first
  double scale = 1;                                  ///< elements of the input per element of the result
};

struct ResampleAttrs {
  Kind kind = Kind::window;
  Divisor divisor = Divisor::elements;
  bool align_corners = false;
  bool transposed = false;  ///< maps the result's gradient to the input's
  double factor = 1;        ///< factor of all weights
  Axis axes[3];

  std::int64_t taken(int d) const { return transposed ? axes[d].to : axes[d].from; }
  std::int64_t given(int d) const { return transposed ? axes[d].from : axes[d].to; }
};

/// The weights along one dimension: result i is Σ weight[k] · x[at[k]] over k in [start[i], start[i + 1]).
struct Taps {
  std::vector<std::int32_t> start, at;
  std::vector<double> weight;
};
Taps taps_of(const ResampleAttrs& map, int axis);

/// @param x [outer, D, H, W, inner], floating
Tensor apply_map(const Tensor& x, const ResampleAttrs& map);

void map_cpu(const OpCall& call, std::span<Tensor> out);
bool map_gpu(const OpCall& call, std::span<Tensor> out);

}  // namespace etna::resample
