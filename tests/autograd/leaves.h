#pragma once

#include <vector>

#include <etna/tensor/tensor.h>

/// What the tests of the tape share.
namespace etna {

inline std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }
inline Tensor leaf(const std::vector<double>& list) { return from_vector(list).requires_grad_(); }
inline Tensor leaf(const std::vector<double>& list, Shape shape) { return from_vector(list, shape).requires_grad_(); }

}  // namespace etna
