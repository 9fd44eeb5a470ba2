#pragma once

#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::nn {

/// All elements of the parameters in one vector, in order; differentiable. @throws Error for no parameters
Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
/// Copies a vector's elements into the parameters, in order, in place and off the tape.
/// @throws ShapeError unless the vector has as many elements as the parameters
void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);

}  // namespace etna::nn
