#pragma once

#include <vector>

#include <etna/tensor/tensor.h>

namespace etna::optim {

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the norm of all gradients taken as one
/// vector (Pascanu et al. 2013). The norm stays on the gradients' device; nothing is read back. A NaN or infinity in a
/// gradient shows in the norm.
/// @param norm_type 2, 1 or infinity (largest magnitude)
/// @return the norm before scaling, 0-d; 0 if no parameter has a gradient
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2);

/// Clamps every element of every gradient to [-clip_value, clip_value], in place. NaN stays NaN.
/// @throws Error if the limit is negative
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace etna::optim
