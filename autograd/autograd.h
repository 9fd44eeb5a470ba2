#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <etna/tensor/op.h>
#include <etna/tensor/tensor.h>

/// Reverse-mode differentiation over an eager tape. Tensor::backward() and its kin are declared in
/// <etna/tensor/tensor.h>.
namespace etna {

/// Nothing is recorded in this thread while one lives.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

namespace autograd {

/// Gradients of `outputs` with respect to `inputs`, without touching any .grad().
/// With create_graph the choice over Tensor::backward(): there a leaf and its gradient own each other until the
/// gradient is dropped.
/// @param grad_outputs one for each output, of its shape; empty: ones, for scalar outputs
/// @return one for each input; undefined where an output does not depend on it
/// @throws GradError where no output requires grad
TensorList grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                std::span<const Tensor> grad_outputs = {}, bool retain_graph = false, bool create_graph = false);

/// An op of the user's own: `forward` computes without being recorded, `backward` gets the gradient of each output and
/// returns one for each input (undefined: none). What backward needs it captures.
///     Tensor y = custom({x}, [](const TensorList& in) { return TensorList{...}; },
///                       [x = x.detach()](const TensorList& grad) { return TensorList{grad[0] * ...}; })[0];
TensorList custom(const TensorList& inputs, const std::function<TensorList(const TensorList&)>& forward,
                  std::function<TensorList(const TensorList& grad)> backward, std::string name = "custom");

/// Runs `f` without keeping what its backward needs, and runs it again when backward comes: memory of one such part at
/// a time instead of all, for one more forward pass (Chen et al. 2016). Parameters that `f` uses get their gradients as
/// usual. Dropout repeats its masks.
/// @param inputs at least one must require grad, else nothing inside is differentiated
TensorList checkpoint(const std::function<TensorList(const TensorList&)>& f, const TensorList& inputs);

/// While one lives, backward() throws GradError naming the op whose gradient first holds a NaN or an infinity. Slow: it
/// reads every gradient.
class DetectAnomaly {
 public:
  DetectAnomaly();
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  bool before_;
};

struct GradcheckOptions {
  double step = 1e-6;         ///< of the central difference
  double absolute = 1e-5;     ///< allowed |analytic - numeric|, plus
  double relative = 1e-4;     ///< this share of |numeric|
  bool second_order = false;  ///< also check the gradient of the gradient
};

/// Compares gradients with central differences, for every element of every floating input that requires grad. Inputs
/// should be f64, on the CPU.
/// @return an empty string where all agree, else the first disagreement in words
std::string gradcheck(const std::function<TensorList(const TensorList&)>& f, const TensorList& inputs,
                      GradcheckOptions options = {});

}  // namespace autograd
}  // namespace etna
