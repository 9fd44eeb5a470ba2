#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <etna/tensor/tensor.h>

/// Activations in addition to the rows of elementwise.def that ops.h declares. Names, defaults and gradients at kinks
/// are those of torch.nn.functional. f16 and bf16 are computed in f32 and rounded once per op.
namespace etna {

/// Activations that a gemm kernel can apply in its epilogue. Each has the name of an elementwise op.
enum class Activation : std::uint8_t {
  none,
#define ETNA_ACTIVATION(number, name, ...) name = number,
#include <etna/tables/activations.def>
#undef ETNA_ACTIVATION
};

/// "silu", "none".
const char* name(Activation activation);
/// The activation of this name, if there is one.
std::optional<Activation> activation_named(std::string_view name);
/// activation(x)
Tensor activate(const Tensor& x, Activation activation);
/// g · activation'(x): calls the op `<activation>_backward`.
Tensor activation_backward(const Tensor& g, const Tensor& x, Activation activation);

Tensor leaky_relu(const Tensor& x);  ///< negative slope 0.01
/// x where x ≥ 0, weight · x where x is negative.
/// @param weight [] or [1]: one negative slope; [C]: one for each index of dimension 1 of x
/// @throws ShapeError for other shapes
Tensor prelu(const Tensor& x, const Tensor& weight);
/// While training, leaky_relu with negative slopes drawn uniformly from [lower, upper] per element; otherwise with
/// their mean.
Tensor rrelu(const Tensor& x, double lower = 1.0 / 8, double upper = 1.0 / 3, bool training = false);
Tensor elu(const Tensor& x);   ///< alpha 1
Tensor celu(const Tensor& x);  ///< alpha 1
/// x limited to [lo, hi]. Unlike clamp()'s, its gradient is 0 at the bounds.
Tensor hardtanh(const Tensor& x, double lo = -1, double hi = 1);
Tensor softshrink(const Tensor& x);  ///< lambda ½
Tensor hardshrink(const Tensor& x);  ///< lambda ½
/// x - tanh(x)
Tensor tanhshrink(const Tensor& x);
/// x where x > at, else value.
Tensor threshold(const Tensor& x, double at, double value);
/// log(1 + e^(beta · x)) / beta; x itself where beta · x > threshold.
Tensor softplus(const Tensor& x, double beta, double threshold = 20);
/// The first half of a dimension times the sigmoid of the second (Dauphin et al. 2017).
/// @throws ShapeError if the dimension's size is odd
Tensor glu(const Tensor& x, std::int64_t dim = -1);
/// softmax(-x)
Tensor softmin(const Tensor& x, std::int64_t dim);

// ---- gated
/// Gated activations (Shazeer 2020): silu(gate) · up and gelu(gate) · up. A captured step runs each as one kernel.
Tensor swiglu(const Tensor& gate, const Tensor& up);
/// gelu(gate) · up (Shazeer 2020). A captured step runs it as one kernel.
Tensor geglu(const Tensor& gate, const Tensor& up);

}  // namespace etna
