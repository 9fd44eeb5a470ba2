#pragma once

#include <cstdint>

#include <etna/tensor/tensor.h>

/// Random numbers: Philox4x32-10 (Salmon et al. 2011). Every device gives the same bits; each replay of a captured step
/// gives new ones. Tensor::uniform_() and its family fill in place.
namespace etna {

// ---- state and fills
/// Sets the process's seed and its offset to 0.
void manual_seed(std::uint64_t seed);
/// The seed that manual_seed() set.
std::uint64_t current_seed();
/// The state of the process's random number generator. Checkpoints store it, and recomputation restores it.
struct RandomState {
  std::uint64_t seed = 0, offset = 0;
};
/// The state to store; set_random_state() continues from it.
RandomState random_state();
/// Continues from a state that random_state() returned.
void set_random_state(const RandomState& state);
Tensor rand(Shape shape, TensorOptions options = {});   ///< uniform in [0, 1)
Tensor randn(Shape shape, TensorOptions options = {});  ///< standard normal
/// Uniform integers in [low, high).
Tensor randint(std::int64_t low, std::int64_t high, Shape shape, TensorOptions options = {DType::i64});
/// Zeroes each element with probability p and scales the rest by 1/(1-p).
Tensor dropout(const Tensor& x, double p, bool training = true);

// ---- distributions; nothing here has a gradient
/// 1 with probability p, else 0; shape and dtype are those of p. A uniform number below p decides: 24 bits, or 53 for
/// f64. @throws ShapeError for p outside [0, 1], which the CPU checks outside captured steps
Tensor bernoulli(const Tensor& p);
/// The same probability for all elements, in x's shape; x's values are not read.
Tensor bernoulli(const Tensor& x, double p);
/// mean + std · randn(), broadcast. @throws ShapeError for a negative std given as a number
Tensor normal(const Tensor& mean, const Tensor& std);
Tensor normal(const Tensor& mean, double std = 1);
Tensor normal(double mean, const Tensor& std);
Tensor normal(double mean, double std, Shape shape, TensorOptions options = {});
/// Number of events at a mean rate; shape and dtype are those of rate. A rate below 12 counts the sums of up to 48
/// exponential gaps, which take memory: exact to f32's rounding. Above, a normal number is turned into the quantile by
/// the Cornish-Fisher expansion: the distribution function is within 3e-4 of the exact one. Devices round gaps
/// differently, so a number may differ if two are that close.
/// @throws ShapeError for a rate that is negative or NaN, which the CPU checks outside captured steps
Tensor poisson(const Tensor& rate);
/// Number of successes in `count` trials of probability `prob`, broadcast. Computed like poisson(): by gaps between
/// successes (or failures) if fewer than 12 are expected. @param count integers ≥ 0, floating
Tensor binomial(const Tensor& count, const Tensor& prob);
/// A random permutation of 0 ... n - 1. @param options an integer dtype, or floating
Tensor randperm(std::int64_t n, TensorOptions options = {DType::i64});
/// Indices drawn with probabilities proportional to `weights`, which need not add up to 1. Devices round the sums and
/// quotients of weights differently, so an index may differ if two classes are that close.
/// @param weights [K] or [B, K], floating, not negative, K ≤ 2^24 @return i64 [num_samples] or [B, num_samples]
/// @throws ShapeError if num_samples exceeds K without replacement; on the CPU, outside captured steps, also for
/// weights that are negative or not finite, and for a row of zeros
Tensor multinomial(const Tensor& weights, std::int64_t num_samples, bool replacement = false);

namespace detail {
/// -ln of uniform numbers in (0, 1); the same f32 bits on every device.
Tensor standard_exponential(const Shape& shape, TensorOptions options);
/// Indices of the `count` largest keys of each row, the largest first; equal keys stay in order. NaN is the largest.
/// Above 32768 keys a GPU sorts them.
/// @param keys [R, K], f32, f64 (no kernel on a GPU) or i64 @return [R, count] i64
Tensor largest_first(const Tensor& keys, std::int64_t count);
}  // namespace detail

// ---- within networks
// ---- channels: while training, each is zeroed with probability p, the others are scaled by 1/(1-p) (Tompson et al.
// 2015).
// @throws ShapeError for p outside [0, 1]
/// @param x [N, C, L], or [C, L]
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true);
/// @param x [N, C, H, W], or [N, C, L], as PyTorch reads three dimensions
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);
/// @param x [N, C, D, H, W], or [C, D, H, W]
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true);

/// Dropout with one mask for all positions of a dimension, such as the steps of a sequence (Gal & Ghahramani 2016):
/// while training, an element dropped at one step is dropped at all steps. @param x any shape of at least one dimension
/// @throws ShapeError for p outside [0, 1] or a dimension that x does not have
Tensor locked_dropout(const Tensor& x, double p = 0.5, bool training = true, std::int64_t dim = 0);
/// Embedding with dropout of whole rows of the table: while training, each row is 0 with probability p and scaled by
/// 1/(1-p) otherwise, at every occurrence in `index` (Gal & Ghahramani 2016).
/// @param index [...] i64 or i32 @param weight [count, dim] @return [..., dim]
Tensor embedding_dropout(const Tensor& index, const Tensor& weight, double p = 0.1, bool training = true);

/// Dropout for networks with selu (Klambauer et al. 2017): dropped elements become selu's lower limit, and the result
/// is scaled and shifted to keep mean 0 and variance 1. With p = 1 all elements are 0.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);
/// The same with whole channels dropped. @param x [N, C, ...]
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);

/// softmax((logits + gumbel noise) / tau): a differentiable sample of classes (Jang et al. 2017).
/// @param tau above 0; the smaller, the closer to one class @param hard one-hot values, with the gradient of the soft
/// ones
/// @throws DtypeError unless floating
Tensor gumbel_softmax(const Tensor& logits, double tau = 1, bool hard = false, std::int64_t dim = -1);

// ---- tokens from logits, on the logits' device
/// Indices of the numbers in a row of SamplingInputs::numbers; all f32.
enum SamplingNumber {
  kTemperature,  ///< divides the logits; 0: picks the largest logit, and the filters down to typical_p are ignored
  kTopK,         ///< keeps tokens whose logit is at least the k-th largest; 0: all
  kTopP,         ///< keeps the most probable tokens whose probabilities sum to this; 1: all
  kMinP,         ///< keeps tokens with at least this fraction of the largest probability; 0: all
  kTypicalP,     ///< as top_p, in order of how near -ln(p) is to the entropy; 1: all
  kRepetitionPenalty,  ///< divides positive logits of tokens in `counts`, multiplies negative ones; 1: none
  kPresencePenalty,    ///< subtracted from the logit of every token that was drawn before
  kFrequencyPenalty,   ///< subtracted once for each time the token was drawn
  kSamplingNumbers
};

/// Added to the count of a token that is in the prompt: it is penalized as repeated, not as drawn.
inline constexpr std::int32_t kInPrompt = 1 << 30;

struct SamplingInputs {
  Tensor numbers;      ///< [B, kSamplingNumbers] f32
  Tensor seeds;        ///< [B, 2] i32: the bits of a u64, the lower ones first
  Tensor draws;        ///< [B] i32: number of tokens drawn so far; each value gives other random numbers
  Tensor counts = {};  ///< [B, V] i32 or undefined: how often each token was drawn; drawing one raises its count
  Tensor bias = {};    ///< [B, V] f32 or undefined: added to logits first
};

/// Draws one token per row. Filters apply one after the other, each to the tokens that the previous one kept; tokens
/// that tie at a limit all stay. The same inputs give the same tokens in every run; other devices may round
/// probabilities differently. Rows without a number (NaN, or all -inf) give token 0. Not differentiable.
/// @param logits [B, V] floating @return [B] i32 @throws ShapeError, DtypeError
Tensor sample_tokens(const Tensor& logits, const SamplingInputs& inputs);

/// Logits with minus infinity for tokens that a row's mask does not allow. Bit i % 32 of word i / 32 allows token i.
/// @param logits [B, V] floating @param masks [N, ceil(V / 32)] i32 @param rows [B] i32: which mask each row has;
/// negative: none, all are allowed @return [B, V], dtype of logits
/// @throws ShapeError, DtypeError; IndexError for a row of N or more
Tensor mask_tokens(const Tensor& logits, const Tensor& masks, const Tensor& rows);

}  // namespace etna
