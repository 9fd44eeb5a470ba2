#pragma once

#include <functional>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/tensor.h>

/// Derivatives of functions, after torch.autograd.functional. The function is called with inputs of its own, so tensors
/// that it captures keep their .grad(). An input that the function does not use has the derivative 0. With create_graph
/// the results can be differentiated again, also with respect to the inputs given.
///
/// There is no vmap(): an op is one call of a kernel for one shape, and no op says how it acts on a batch. jacobian()
/// runs backward once for each element of the output.
namespace etna::autograd {

/// Tensor::backward() for several roots at once: gradients accumulate in the leaves.
/// @param grads one for each root, of its shape; empty: ones, for roots of one element
void backward(const TensorList& roots, const TensorList& grads = {}, bool retain_graph = false,
              bool create_graph = false);

/// A function of tensors to differentiate.
using TensorFunction = std::function<TensorList(const TensorList&)>;

/// What vjp(), jvp(), hvp() and vhp() return.
struct Product {
  TensorList outputs;   ///< of the function, detached unless create_graph
  TensorList products;  ///< one for each input (vjp, hvp), or for each output (jvp)
};
/// vᵀ · J. @param v one for each output, of its shape; empty: ones, for a function to one number
Product vjp(const TensorFunction& f, const TensorList& inputs, const TensorList& v = {}, bool create_graph = false);
/// J · v, by differentiating vᵀ · J with respect to v: two passes backward. @param v one for each input
Product jvp(const TensorFunction& f, const TensorList& inputs, const TensorList& v, bool create_graph = false);
/// H · v for a function to one number. @param v one for each input
Product hvp(const TensorFunction& f, const TensorList& inputs, const TensorList& v, bool create_graph = false);
/// vᵀ · H: the same numbers, since H is symmetric.
Product vhp(const TensorFunction& f, const TensorList& inputs, const TensorList& v, bool create_graph = false);

/// @return [output][input], of the output's shape followed by the input's; together at most 8 dimensions
std::vector<TensorList> jacobian(const TensorFunction& f, const TensorList& inputs, bool create_graph = false);
/// For a function of one tensor. @return of the output's shape followed by the input's
Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, bool create_graph = false);
/// Second derivatives of a function to one number.
/// @return [input][input], of the first input's shape followed by the second's
std::vector<TensorList> hessian(const TensorFunction& f, const TensorList& inputs, bool create_graph = false);
/// For a function of one tensor to one number. @return of the input's shape, twice
Tensor hessian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, bool create_graph = false);

}  // namespace etna::autograd
