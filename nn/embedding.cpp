#include <etna/nn/embedding.h>

#include <fmt/format.h>

#include <etna/nn/init.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

Embedding::Embedding(std::int64_t count, std::int64_t dim)
    : weight(init::normal_(empty({checked_size("Embedding", "count", count), checked_size("Embedding", "dim", dim)}))) {
  register_parameter("weight", weight);
}

std::string Embedding::extra_repr() const { return fmt::format("{}, {}", weight.size(0), weight.size(1)); }

Tensor Embedding::forward(const Tensor& index) const { return embedding(weight, index); }

std::unique_ptr<Module> Embedding::another() const {
  return std::make_unique<Embedding>(weight.size(0), weight.size(1));
}

}  // namespace etna::nn
