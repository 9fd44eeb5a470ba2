#include <etna/nn/embedding.h>

#include <fmt/format.h>

#include <etna/nn/init.h>

namespace etna::nn {

EmbeddingBag::EmbeddingBag(std::int64_t count, std::int64_t dim, EmbeddingBagOptions given)
    : weight(init::normal_(
          empty({checked_size("EmbeddingBag", "count", count), checked_size("EmbeddingBag", "dim", dim)}))),
      options(given) {
  if (auto& row = options.padding_idx) {
    if (*row < -count || *row >= count)
      throw Error(fmt::format("EmbeddingBag: padding_idx {} is outside [{}, {})", *row, -count, count));
    if (*row < 0) *row += count;
    weight[*row] = 0.0;
  }
  register_parameter("weight", &EmbeddingBag::weight);
}

Tensor EmbeddingBag::forward(const Tensor& index, const Tensor& offsets, const Tensor& factors) const {
  return embedding_bag(weight, index, offsets, options, factors);
}

Tensor EmbeddingBag::operator()(const Tensor& index, const Tensor& offsets, const Tensor& factors) const {
  if (!hooked()) return forward(index, offsets, factors);
  return call_hooked({index, offsets, factors},
                     [this](const TensorList& in) { return TensorList{forward(in[0], in[1], in[2])}; })[0];
}

std::string EmbeddingBag::extra_repr() const {
  const char* modes[] = {"sum", "mean", "max"};
  std::string text =
      fmt::format("{}, {}, mode={}", weight.size(0), weight.size(1), modes[static_cast<std::size_t>(options.mode)]);
  if (options.padding_idx) text += fmt::format(", padding_idx={}", *options.padding_idx);
  return text;
}

std::unique_ptr<Module> EmbeddingBag::another() const {
  return std::make_unique<EmbeddingBag>(weight.size(0), weight.size(1), options);
}

}  // namespace etna::nn
