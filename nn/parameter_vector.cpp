#include <etna/nn/parameters.h>

#include <fmt/format.h>

#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::nn {

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  if (parameters.empty()) throw Error("parameters_to_vector: there are no parameters");
  std::vector<Tensor> parts;
  for (const Tensor& p : parameters) parts.push_back(p.reshape({-1}));
  return cat(parts);
}

void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters) {
  std::int64_t count = 0, at = 0;
  for (const Tensor& p : parameters) count = checked_sum(count, p.numel(), "vector_to_parameters");
  if (vector.dim() != 1 || vector.numel() != count) {
    throw ShapeError(fmt::format("vector_to_parameters: the vector is {}, the parameters have {} elements",
                                 str(vector.shape()), count));
  }
  GradMode off(false);
  for (Tensor p : parameters) {
    p.copy_(vector.slice(0, at, at + p.numel()).reshape(p.shape()));
    at += p.numel();
  }
}

}  // namespace etna::nn
