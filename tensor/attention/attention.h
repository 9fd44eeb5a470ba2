#pragma once

#include <etna/tensor/op.h>

/// Scaled dot-product attention and its gradient: what the ops scaled_dot_product_attention and attention_backward run.
namespace etna::attention {

struct Attributes {
  bool causal = false;  ///< query i attends to keys 0 ... i
  double scale = 1;
};

/// Statistics of a row are f32, of f64 inputs f64.
constexpr DType row_dtype(DType t) { return t == f64 ? f64 : f32; }

/// q, k, v with their leading dimensions merged into one: [B, H, T, D], [B, G, S, D]; the last stride is 1. The mask as
/// [B, H, T, S] with stride 0 along what it repeats. Views where strides allow.
struct Inputs {
  Tensor q, k, v, mask;
  std::int64_t batch = 0, heads = 0, groups = 0, queries = 0, keys = 0, size = 0;

  std::int64_t heads_per_group() const { return heads / groups; }
};
Inputs inputs(const OpCall& call);
/// x [..., A, B, C] as [batch, A, B, C], its last stride 1.
Tensor merge_leading(const Tensor& x, std::int64_t batch);

/// Inputs q, k, v, mask. @param out the result [..., H, T, D], logsumexp of each row's scores [..., H, T]
void cpu_forward(const OpCall& call, std::span<Tensor> out);
bool vulkan_forward(const OpCall& call, std::span<Tensor> out);

/// Inputs q, k, v, mask, result, logsumexp, gradient of the result. @param out dq, dk, dv
void cpu_backward(const OpCall& call, std::span<Tensor> out);
bool vulkan_backward(const OpCall& call, std::span<Tensor> out);

/// Attention composed of base ops, rows that attend to nothing giving 0.
Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Attributes& attributes);
/// logsumexp of each row's scores.
Tensor composed_logsumexp(const Tensor& q, const Tensor& k, const Tensor& mask, const Attributes& attributes);
/// dq, dk, dv and, where it is floating, dmask, composed of base ops of the inputs and the result's gradient.
TensorList composed_gradients(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                              const Tensor& gradient, const Attributes& attributes);

}  // namespace etna::attention
