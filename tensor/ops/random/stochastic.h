#pragma once

#include <cstdint>

#include <etna/tensor/tensor.h>

/// Random numbers within networks: dropout() of whole channels, dropout for selu, samples of classes. Composed of ops,
/// with the same bits on every device and new ones at each replay of a captured step.
namespace etna {

// ---- channels: while training, zeroes each with probability p and scales the others by 1/(1-p) (Tompson et al. 2015).
// @throws ShapeError for p outside [0, 1]
/// @param x [N, C, L], or [C, L]
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true);
/// @param x [N, C, H, W], or, as PyTorch reads three dimensions, [N, C, L]
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);
/// @param x [N, C, D, H, W], or [C, D, H, W]
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true);

/// Dropout with one mask for all positions of a dimension, the steps of a sequence for example (Gal & Ghahramani 2016):
/// while training, what is dropped at one step is dropped at all. @param x any shape of at least one dimension
/// @throws ShapeError for p outside [0, 1] or a dimension that x has not
Tensor locked_dropout(const Tensor& x, double p = 0.5, bool training = true, std::int64_t dim = 0);
/// Rows of a table, of which some are dropped whole: while training, each row of the table is 0 with probability p and
/// scaled by 1/(1-p) otherwise, wherever in `index` it stands (Gal & Ghahramani 2016).
/// @param index [...] i64 or i32 @param weight [count, dim] @return [..., dim]
Tensor embedding_dropout(const Tensor& index, const Tensor& weight, double p = 0.1, bool training = true);

/// Dropout for networks with selu (Klambauer et al. 2017): dropped elements take selu's lower limit, and the result is
/// scaled and shifted so that mean 0 and variance 1 stay. With p = 1 all is 0.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);
/// The same with whole channels dropped. @param x [N, C, ...]
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);

/// softmax((logits + gumbel noise) / tau): a sample of classes that can be differentiated (Jang et al. 2017).
/// @param tau above 0; the smaller, the closer to one class @param hard one-hot values, with the gradient of the soft
/// ones
/// @throws DtypeError unless floating
Tensor gumbel_softmax(const Tensor& logits, double tau = 1, bool hard = false, std::int64_t dim = -1);

}  // namespace etna
