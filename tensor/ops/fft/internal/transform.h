#pragma once

#include <etna/tensor/ops/fft/fft.h>

namespace etna::fft {

/// Σ x[k] exp(∓2πi jk / n) · scale along a dimension of a complex tensor: - forward, + inverse.
Tensor transform(const Tensor& x, int dim, bool inverse, double scale);

}  // namespace etna::fft
