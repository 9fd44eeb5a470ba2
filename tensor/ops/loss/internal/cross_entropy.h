#pragma once

#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

/// Softmax cross-entropy of class indices, row by row, and its gradient: the implementation of the ops cross_entropy
/// and cross_entropy_backward.
namespace etna::loss {

struct CrossEntropyAttrs {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
};

/// dtype of sums over classes, loss, logsumexp and count: f32, or f64 for f64 logits.
constexpr DType sum_dtype(DType logits) { return logits == f64 ? f64 : f32; }

/// Targets on the CPU as i64. @throws IndexError naming the first target that is neither a class nor ignore_index
cpu::Scratch<std::int64_t> checked_targets(const char* op, const Tensor& target, std::int64_t classes,
                                           std::int64_t ignore_index);

/// @param out loss ([N] or []), logsumexp [N], count [1] (rows that are not ignored)
void forward_cpu(const OpCall& call, std::span<Tensor> out);
bool forward_gpu(const OpCall& call, std::span<Tensor> out);

/// Inputs logits, target, logsumexp, count, gradient of the loss. @param out dlogits [N, C]
void backward_cpu(const OpCall& call, std::span<Tensor> out);
bool backward_gpu(const OpCall& call, std::span<Tensor> out);

/// Composed of differentiable ops. @param g gradient of the loss
struct LossAndGradient {
  Tensor loss, gradient;
};
LossAndGradient loss_and_gradient(const Tensor& logits, const Tensor& target, const Tensor& g,
                                  const CrossEntropyAttrs& a);

}  // namespace etna::loss
