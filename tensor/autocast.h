#pragma once

#include <cstdint>
#include <vector>

#include <etna/tensor/tensor.h>

/// Mixed precision: products in f16 or bf16, everything that sums in f32, and parameters as they are.
namespace etna {

/// While one lives, in its thread, f32 inputs of some ops are cast first:
///     linear, matmul, scaled_dot_product_attention, self_attention    compute in `dtype` with f32 sums
///     layer_norm, rms_norm and their sums with a residual             compute in f32 and write `dtype`
///     linear_layer_norm, feed_forward_layer_norm                      both: products in `dtype`, the sum as it comes
///     softmax, log_softmax, logsumexp, sum, mean, prod, cumsum,
///     var, exp, log, pow, losses                                      give f32 for f16 and bf16 inputs
/// Everything else works in the dtypes that come. f64 is left alone. A parameter is cast once while the outermost guard
/// lives, and its gradient has its own dtype. Put forward passes and the loss under it; backward() needs no guard, and
/// heeds none.
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

[[nodiscard]] inline Autocast autocast(DType dtype) { return Autocast(dtype); }

/// What f32 inputs of products become in this thread now; f32: they stay.
DType autocast_dtype();

namespace detail {

/// x as products take it: cast where it is f32 and autocast is on.
Tensor lowered(const Tensor& x);
/// x as sums take it: f32 where it is f16 or bf16 and autocast is on.
Tensor raised(const Tensor& x);

/// Inputs of a layer of products in the dtype that holds them all, lowered where autocast is on; those that are not all
/// floating stay, for the op to refuse. @param biases bit i: the i-th is added to a sum, so that under autocast it
/// stays as it is
void bring_to_one_dtype(std::vector<Tensor>& inputs, std::uint32_t biases);

/// Forgets the casts that this thread's guards keep, for as long as it lives: a step that is replayed makes its own.
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
