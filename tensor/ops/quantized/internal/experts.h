#pragma once

#include <cstdint>

#include <etna/tensor/ops/activations/activations.h>
#include <etna/tensor/quant/quantized_tensor.h>

/// Mixtures of experts (Shazeer et al. 2017): which experts a position passes, and its way through them.
namespace etna {

/// How experts follow from a router's logits.
struct ChoiceAttrs {
  std::int64_t chosen = 1;  ///< experts of a row, C
  bool sigmoid = false;     ///< scores are sigmoids of the logits, else their softmax
  /// Experts come from the best groups: of `groups` of equal size, `chosen_groups`. Scores of the others count 0.
  std::int64_t groups = 1, chosen_groups = 1;
  bool groups_by_best = false;  ///< groups are compared by their best expert, else by the sum of the best two
  bool normalized = false;      ///< factors are divided by their sum
  double scale = 1;             ///< of factors
};

struct ExpertChoice {
  Tensor expert;  ///< [R, C], the best one first; of equal scores the lower number
  Tensor factor;  ///< [R, C]: the scores, normalized and scaled
};

/// Chooses the experts with the largest scores. Differentiable in the logits, through the factors.
/// @param logits [R, E] floating @param bias [E] or undefined: added to scores for the choice, not to factors
/// @return i32, and the dtype of the logits
/// @throws ShapeError, DtypeError
ExpertChoice choose_experts(const Tensor& logits, const Tensor& bias, const ChoiceAttrs& options);

/// y[r] = Σ_c factor[r, c] · down_e (act(gate_e x[r]) ⊙ up_e x[r]), e = expert[r, c]: gated feed-forward layers of the
/// chosen experts, one after the other in the order of c. A GPU multiplies few rows choice by choice; of more, those of
/// one expert together, on matrix units where it has some. Differentiable in x and the factors.
/// @param x [R, K] floating @param gate, up [E · F, K] @param down [E · K, F]: the matrices of E experts, one below
/// the other, in any format but those with a scale of the whole tensor
/// @return [R, K] in the dtype of x @throws ShapeError, DtypeError, FormatError, IndexError
Tensor expert_feed_forward(const Tensor& x, const QuantizedTensor& gate, const QuantizedTensor& up,
                           const QuantizedTensor& down, const ExpertChoice& choice, Activation activation,
                           std::int64_t experts);

}  // namespace etna
