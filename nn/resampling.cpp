#include <etna/nn/resampling.h>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/rearranging.h>

namespace etna::nn {

Padding::Padding(const char* name, const Dims& given, int spatial, PadMode mode, double value)
    : mode(mode), value(value) {
  const std::size_t sides = 2 * static_cast<std::size_t>(spatial);
  if (given.size() != 1 && given.size() != sides)
    throw ShapeError(fmt::format("{}{}d: padding is {}; pass one number or {}", name, spatial, str(given), sides));
  for (std::size_t i = 0; i < sides; ++i) padding.push_back(given[given.size() == 1 ? 0 : static_cast<int>(i)]);
}

Tensor Unflatten::forward(const Tensor& x) const { return unflatten(x, dim, unflattened_size); }

}  // namespace etna::nn
