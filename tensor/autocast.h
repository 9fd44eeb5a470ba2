#pragma once

#include <cstdint>
#include <vector>

#include <etna/tensor/tensor.h>

/// Mixed precision: matrix products in f16 or bf16, sums in f32, parameters in their own dtype.
namespace etna {

/// While an Autocast lives, some ops of its thread cast their f32 inputs first:
///     linear, matmul, scaled_dot_product_attention, self_attention    compute in `dtype` with f32 sums
///     layer_norm, rms_norm and their sums with a residual             compute in f32 and write `dtype`
///     linear_layer_norm, feed_forward_layer_norm                      both: products in `dtype`, the sum as it comes
///     softmax, log_softmax, logsumexp, sum, mean, prod, cumsum,
///     var, exp, log, pow, losses                                      give f32 for f16 and bf16 inputs
/// All other ops compute in the dtypes they get. f64 is left alone. A parameter is cast once per outermost guard, and
/// its gradient has the parameter's own dtype. Put the forward pass and the loss under the guard. backward() needs no
/// guard and ignores one.
///     { auto mixed = autocast(bf16);  loss = model.loss(x, y); }
///     loss.backward();
/// f16 needs its gradients scaled: <etna/optim/grad_scaler.h>.
class [[nodiscard]] Autocast {
 public:
  /// @param dtype f16 or bf16; f32 turns autocast off inside another guard @throws DtypeError for others
  explicit Autocast(DType dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  DType before_;
};

/// Autocast to `dtype` for as long as the result lives: `const auto cast = autocast(bf16);`.
[[nodiscard]] inline Autocast autocast(DType dtype) { return Autocast(dtype); }

/// The dtype to which this thread now casts f32 inputs of matrix products; f32: no cast.
DType autocast_dtype();

namespace detail {

/// x as matrix products take it: cast if it is f32 and autocast is on.
Tensor lowered(const Tensor& x);
/// x as sums take it: cast to f32 if it is f16 or bf16 and autocast is on.
Tensor raised(const Tensor& x);

/// Converts the inputs of a layer of matrix products to one common dtype, lowered if autocast is on. Inputs that are
/// not all floating stay as they are, and the op refuses them.
/// @param biases bit i: input i is added to a sum, so autocast leaves it as it is
void bring_to_one_dtype(std::vector<Tensor>& inputs, std::uint32_t biases);

/// Hides the cached casts of this thread's guards while it lives: a replayed step makes its own casts.
class FreshCasts {
 public:
  FreshCasts();
  ~FreshCasts();
  FreshCasts(const FreshCasts&) = delete;
  FreshCasts& operator=(const FreshCasts&) = delete;

 private:
  void* before_;
};

}  // namespace detail
}  // namespace etna
