#include <etna/nn/embedding.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

PatchEmbedding::Projection::Projection(std::int64_t channels, std::int64_t dim, std::int64_t patch, bool with_bias) {
  checked_size("PatchEmbedding", "channels", channels, 1);
  checked_size("PatchEmbedding", "dim", dim, 1);
  checked_size("PatchEmbedding", "patch", patch, 1);
  const double bound =
      1 / std::sqrt(static_cast<double>(channels) * static_cast<double>(patch) * static_cast<double>(patch));
  weight = init::uniform_(empty({dim, channels, patch, patch}), -bound, bound);
  if (with_bias) bias = init::uniform_(empty({dim}), -bound, bound);
  register_parameter("weight", &Projection::weight);
  register_parameter("bias", &Projection::bias);
}

PatchEmbedding::PatchEmbedding(std::int64_t channels, std::int64_t dim, std::int64_t patch, bool bias)
    : proj(channels, dim, patch, bias) {
  register_module("proj", proj);
}

Tensor PatchEmbedding::forward(const Tensor& x) const {
  const std::int64_t channels = proj.weight.size(1), patch = proj.weight.size(2);
  if (x.dim() != 4 || x.size(1) != channels || x.size(2) % patch != 0 || x.size(3) % patch != 0) {
    throw ShapeError(fmt::format("PatchEmbedding: x is {}; wanted [N, {}, H, W] with sides that are multiples of {}",
                                 str(x.shape()), channels, patch));
  }
  const std::int64_t rows = x.size(2) / patch, columns = x.size(3) / patch;
  const Tensor patches = x.reshape({x.size(0), channels, rows, patch, columns, patch})
                             .permute({0, 2, 4, 1, 3, 5})
                             .reshape({x.size(0), rows * columns, channels * patch * patch});
  return linear(patches, proj.weight.flatten(1), proj.bias);
}

std::string PatchEmbedding::extra_repr() const {
  return fmt::format("{}, {}, patch={}", proj.weight.size(1), proj.weight.size(0), proj.weight.size(2));
}

std::unique_ptr<Module> PatchEmbedding::another() const {
  const Shape& w = proj.weight.shape();
  return std::make_unique<PatchEmbedding>(w[1], w[0], w[2], proj.bias.defined());
}

}  // namespace etna::nn
