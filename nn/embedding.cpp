#include <etna/nn/embedding.h>

#include <fmt/format.h>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

Embedding::Embedding(std::int64_t count, std::int64_t dim, EmbeddingOptions given)
    : weight(init::normal_(empty({checked_size("Embedding", "count", count), checked_size("Embedding", "dim", dim)}))),
      options(given) {
  if (auto& row = options.padding_idx) {
    if (*row < -count || *row >= count)
      throw IndexError(fmt::format("Embedding: padding_idx {} is outside [{}, {})", *row, -count, count));
    if (*row < 0) *row += count;
    weight[*row] = 0.0;
  }
  register_parameter("weight", &Embedding::weight);
}

std::string Embedding::extra_repr() const {
  std::string text = fmt::format("{}, {}", weight.size(0), weight.size(1));
  if (options.padding_idx) text += fmt::format(", padding_idx={}", *options.padding_idx);
  return text;
}

Tensor Embedding::forward(const Tensor& index) const { return embedding(weight, index, options.padding_idx); }

std::unique_ptr<Module> Embedding::another() const {
  return std::make_unique<Embedding>(weight.size(0), weight.size(1), options);
}

}  // namespace etna::nn
