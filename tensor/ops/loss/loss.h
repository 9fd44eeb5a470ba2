#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <etna/tensor/tensor.h>

/// Losses and distances with PyTorch's names, defaults and order of arguments. All are composed of ops, so they run on
/// every device and in captured steps, and can be differentiated twice. f16 and bf16 are computed in f32 and rounded
/// once; under autocast the result stays f32. Unless stated otherwise, inputs do not broadcast: x and target have one
/// shape, and the loss is 0-d, or of x's shape if the reduction is none. Weights are undefined or broadcast to the
/// loss. Values of targets are not checked.
namespace etna {

/// How a loss combines the losses of its elements or rows.
enum class Reduction { none, mean, sum };

// ---- for class indices, i64 or i32
/// -log softmax(logits)[target].
/// Rows whose target is ignore_index count neither in the sum nor in the mean; the mean of no rows is NaN. Any other
/// target outside [0, C) throws IndexError as <etna/tensor/ops/indexing/indexing.h> describes; on a GPU the row's loss
/// and gradient are NaN until then.
/// @param logits [N, C], [N, C, d...] or [C] @param target [N], [N, d...] or []
/// @return [] or, unreduced, of target's shape; f32, or f64 for f64 logits
Tensor cross_entropy(const Tensor& logits, const Tensor& target, std::int64_t ignore_index = -100,
                     double label_smoothing = 0, Reduction reduction = Reduction::mean);
/// cross_entropy(linear(x, weight, bias), target) without storing all logits at once. Computes them one chunk of rows
/// at a time; if gradients are wanted, each chunk is overwritten with its own gradient. Unreduced, it composes the two
/// ops.
/// @param x [N, E] @param weight [C, E] @param bias [C] or undefined @return [], f32, or f64 for f64
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target, const Tensor& bias = {},
                            std::int64_t ignore_index = -100, double label_smoothing = 0,
                            Reduction reduction = Reduction::mean);
/// -log_probs[target].
/// @param log_probs, target as for cross_entropy()
Tensor nll_loss(const Tensor& log_probs, const Tensor& target, std::int64_t ignore_index = -100,
                Reduction reduction = Reduction::mean);
/// (x - target)².
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);

// ---- for classes with weights or probabilities
/// -weight[target] · log softmax(logits)[target]; the mean divides by the sum of these weights.
/// @param logits [N, C, ...] or [C] @param target class indices as for cross_entropy() above, or probabilities:
/// floating, of logits' shape. Probabilities are smoothed too, ignore_index does not apply, and the mean divides by the
/// number of rows
/// @param weight [C] or undefined
/// @return [] or, unreduced, [N, ...]; f32, or f64 for f64 logits
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight, std::int64_t ignore_index = -100,
                     double label_smoothing = 0, Reduction reduction = Reduction::mean);
/// -weight[target] · log_probs[target]; the mean divides by the sum of these weights.
/// @param weight [C] or undefined
Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const Tensor& weight, std::int64_t ignore_index = -100,
                Reduction reduction = Reduction::mean);
/// -(target · log x + (1 - target) · log(1 - x)); logarithms are at least -100. @param x probabilities in [0, 1]
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                            Reduction reduction = Reduction::mean);
/// binary_cross_entropy() of sigmoid(x), accurate for large logits. @param pos_weight multiplies the first term;
/// broadcasts
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                        Reduction reduction = Reduction::mean, const Tensor& pos_weight = {});
/// Focal loss of sigmoid(x) (Lin et al. 2017), as in torchvision: binary_cross_entropy_with_logits · (1 - pₜ)^gamma ·
/// αₜ, where pₜ is the target's probability and αₜ is alpha for target 1, 1 - alpha for 0.
/// @param alpha negative: αₜ is 1
Tensor sigmoid_focal_loss(const Tensor& x, const Tensor& target, double alpha = 0.25, double gamma = 2,
                          Reduction reduction = Reduction::none);
/// 1 - (2 Σ x·target + smooth) / (Σ x + Σ target + smooth), sums over all but the first dimension (Milletari et al.
/// 2016).
/// @param x probabilities [N, ...] @return [] or [N]
Tensor dice_loss(const Tensor& x, const Tensor& target, double smooth = 1, Reduction reduction = Reduction::mean);
/// batchmean divides the sum by size(0), which is the mathematical definition.
enum class KLReduction { none, mean, sum, batchmean };
/// target · (log target - x). @param x log-probabilities @param log_target target holds log-probabilities too
Tensor kl_div(const Tensor& x, const Tensor& target, KLReduction reduction = KLReduction::mean,
              bool log_target = false);
/// Connectionist temporal classification (Graves et al. 2006): -log of the probability of all alignments, by forward
/// variables in log space; one time step is a few dispatches. The mean divides each loss by its target's length. The
/// gradient is that of log_probs themselves. PyTorch's assumes that log_softmax precedes it; after log_softmax both
/// agree.
/// @param log_probs [T, N, C] or [T, C] @param targets [N, S] or [S], labels other than blank, i64 or i32
/// @param input_lengths, target_lengths [N] or [], i64 or i32, at most T and S; may change between replays
/// @param zero_infinity sets losses of impossible alignments, and their gradients, to 0. Otherwise such a loss is
/// infinite, and its gradient is still 0.
/// @return [] or [N] (unreduced, [] for one sequence)
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, std::int64_t blank = 0, Reduction reduction = Reduction::mean,
                bool zero_infinity = false);
/// ctc_loss() with lengths on the host. Then targets may also be the concatenation of all sequences, [sum of lengths].
/// @throws ShapeError for lengths that do not fit
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const std::vector<std::int64_t>& input_lengths,
                const std::vector<std::int64_t>& target_lengths, std::int64_t blank = 0,
                Reduction reduction = Reduction::mean, bool zero_infinity = false);

// ---- regression
/// |x - target|
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
/// (x - target)² / (2 beta) within beta, else |x - target| - beta/2. @param beta at least 0; 0: l1_loss
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean, double beta = 1);
/// (x - target)² / 2 within delta, else delta · (|x - target| - delta/2). @param delta positive
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean, double delta = 1);
/// (log var + (x - target)² / var) / 2 with var at least eps. As in PyTorch, the gradient of var ignores that bound.
/// @param var of x's shape, or its last dimension is 1 or missing @param full adds log(2π)/2
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var, bool full = false, double eps = 1e-6,
                         Reduction reduction = Reduction::mean);
/// exp(x) - target · x, or x - target · log(x + eps). @param full adds Stirling's approximation of log target! for
/// targets above 1
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, bool log_input = true, bool full = false,
                        double eps = 1e-8, Reduction reduction = Reduction::mean);

// ---- with a margin
/// max(0, margin - target · (x1 - x2)). @param target 1 or -1
Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin = 0,
                           Reduction reduction = Reduction::mean);
/// x where target is 1, max(0, margin - x) where it is -1
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1,
                            Reduction reduction = Reduction::mean);
/// log(1 + exp(-target · x)). @param target 1 or -1
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
/// Σ over i ≠ target of max(0, margin - x[target] + x[i])^p · weight[target] / C.
/// @param x [N, C] or [C] @param target [N] or [] i64 or i32 @param p 1 or 2 @param weight [C] or undefined
/// @return [] or [N]
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, int p = 1, double margin = 1, const Tensor& weight = {},
                         Reduction reduction = Reduction::mean);
/// Σ over labels j and other classes i of max(0, 1 - x[j] + x[i]) / C. Needs memory for C numbers per element of x.
/// @param x [N, C] or [C] @param target of x's shape, i64 or i32: a row's labels, then -1 @return [] or [N]
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
/// The mean over classes of binary_cross_entropy_with_logits. @param x [..., C] @return [] or [...]
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                   Reduction reduction = Reduction::mean);
/// 1 - cos(x1, x2) where target is 1, max(0, cos(x1, x2) - margin) where it is -1.
/// @param x1, x2 [N, D] or [D] @param target [N] or [] @return [] or [N]
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin = 0,
                             Reduction reduction = Reduction::mean);
/// max(0, |anchor - positive| - |anchor - negative| + margin) by pairwise_distance().
/// @param anchor, positive, negative [N, D] or [D] @param swap uses |positive - negative| where it is less than |anchor
/// - negative|
/// @return [] or [N]
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin = 1,
                           double p = 2, double eps = 1e-6, bool swap = false, Reduction reduction = Reduction::mean);
/// A distance between rows, for triplet_margin_with_distance_loss().
using DistanceFunction = std::function<Tensor(const Tensor& x1, const Tensor& x2)>;
/// The same with any distance function, larger for inputs that are less alike.
/// @param distance of two inputs of one shape; empty: pairwise_distance()
/// @return [] or, unreduced, of the distances' shape
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const DistanceFunction& distance = {}, double margin = 1, bool swap = false,
                                         Reduction reduction = Reduction::mean);

// ---- distances
/// x1 · x2 / (max(‖x1‖, eps) · max(‖x2‖, eps)) along `dim`; inputs broadcast.
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, std::int64_t dim = 1, double eps = 1e-8);
/// The p-norm of x1 - x2 + eps over the last dimension; inputs broadcast. @param p at least 0, or infinity
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2, double eps = 1e-6, bool keepdim = false);
/// The p-norms of the differences between all rows of x1 and all rows of x2. Unless fused, needs memory for all
/// differences.
/// @param x1 [..., P, M] @param x2 [..., R, M] @return [..., P, R]
Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2);
/// The p-norms of the differences between each row and each later row: row 0 with rows 1, 2 ..., then row 1 with rows
/// 2, 3 ...
/// @param x [P, M] @return [P · (P - 1) / 2]
Tensor pdist(const Tensor& x, double p = 2);
/// x / max(p-norm along `dim`, eps). @param p as in norm()
Tensor normalize(const Tensor& x, double p = 2, std::int64_t dim = 1, double eps = 1e-12);

}  // namespace etna
