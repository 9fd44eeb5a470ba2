#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include <etna/tensor/ops/activations/activations.h>
#include <etna/tensor/ops/loss/reduction.h>
#include <etna/tensor/tensor.h>

/// The public ops. Each is differentiable where that makes sense. Ops of several tensors broadcast as NumPy does and
/// promote dtypes as PyTorch does. f16 and bf16 are computed in f32 and rounded once. Integers meet numbers in 64 bits
/// and results wrap; where the result would be a number that the dtype cannot hold, as in where(m, x, 300) of u8, it is
/// a DtypeError.
namespace etna {

// ---- elementwise: rows of tensor/ops/elementwise/elementwise.def
#define ETNA_DECLARE_1(NAME) Tensor NAME(const Tensor& x);
#define ETNA_DECLARE_1n(NAME) Tensor NAME(const Tensor& x, double number);
#define ETNA_DECLARE_2n(NAME) Tensor NAME(const Tensor& a, const Tensor& b, double number);
#define ETNA_DECLARE_2(NAME)                     \
  Tensor NAME(const Tensor& a, const Tensor& b); \
  Tensor NAME(const Tensor& a, double b);        \
  Tensor NAME(double a, const Tensor& b);
#define ETNA_DECLARE_3(NAME)                                      \
  Tensor NAME(const Tensor& a, const Tensor& b, const Tensor& c); \
  Tensor NAME(const Tensor& a, const Tensor& b, double c);        \
  Tensor NAME(const Tensor& a, double b, const Tensor& c);
#define ETNA_ELEMENTWISE(NAME, ARITY, ...) ETNA_DECLARE_##ARITY(NAME)
#include <etna/tensor/ops/elementwise/elementwise.def>
#undef ETNA_ELEMENTWISE
#undef ETNA_DECLARE_1
#undef ETNA_DECLARE_1n
#undef ETNA_DECLARE_2n
#undef ETNA_DECLARE_2
#undef ETNA_DECLARE_3

inline Tensor operator-(const Tensor& x) { return neg(x); }
#define ETNA_OPERATOR(SYMBOL, NAME)                                                      \
  inline Tensor operator SYMBOL(const Tensor& a, const Tensor& b) { return NAME(a, b); } \
  inline Tensor operator SYMBOL(const Tensor& a, double b) { return NAME(a, b); }        \
  inline Tensor operator SYMBOL(double a, const Tensor& b) { return NAME(a, b); }
ETNA_OPERATOR(+, add)
ETNA_OPERATOR(-, sub)
ETNA_OPERATOR(*, mul)
ETNA_OPERATOR(/, div)
ETNA_OPERATOR(%, remainder)
ETNA_OPERATOR(==, eq)
ETNA_OPERATOR(!=, ne)
ETNA_OPERATOR(<, lt)
ETNA_OPERATOR(<=, le)
ETNA_OPERATOR(>, gt)
ETNA_OPERATOR(>=, ge)
#undef ETNA_OPERATOR
/// Logic on masks, bits of integers. @throws DtypeError for floats
Tensor operator&(const Tensor& a, const Tensor& b);
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator~(const Tensor& x);
Tensor operator&(const Tensor& a, std::int64_t b);
Tensor operator|(const Tensor& a, std::int64_t b);
Tensor operator^(const Tensor& a, std::int64_t b);
/// Bits of integers, moved. By a negative number, or by as many bits as there are, everything is shifted out.
inline Tensor operator<<(const Tensor& a, const Tensor& b) { return bitwise_left_shift(a, b); }
inline Tensor operator>>(const Tensor& a, const Tensor& b) { return bitwise_right_shift(a, b); }
inline Tensor operator<<(const Tensor& a, std::int64_t b) { return bitwise_left_shift(a, static_cast<double>(b)); }
inline Tensor operator>>(const Tensor& a, std::int64_t b) { return bitwise_right_shift(a, static_cast<double>(b)); }

/// Converts to another dtype: rounds to nearest even among floats, truncates toward zero to integers, ≠ 0 to bool.
Tensor cast(const Tensor& x, DType dtype);
/// A contiguous copy.
Tensor copy(const Tensor& x);
/// mask ? value : x. @param mask bool, broadcasts with x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
/// NaN stays NaN. The gradient passes where lo ≤ x ≤ hi.
Tensor clamp(const Tensor& x, std::optional<double> lo, std::optional<double> hi);
/// The same with bounds that broadcast with x; an undefined one bounds nothing. A NaN in a bound gives NaN.
Tensor clamp(const Tensor& x, const Tensor& lo, const Tensor& hi);
/// One of two numbers each, in f32. @param mask bool
Tensor where(const Tensor& mask, double a, double b);

// ---- reductions over `dims` (empty: all)
Tensor sum(const Tensor& x, Dims dims = {}, bool keepdim = false);   ///< integers and bool sum to i64
Tensor sum(const Tensor& x, Dims dims, bool keepdim, DType out);     ///< f32 of f16 or bf16, not rounded
Tensor mean(const Tensor& x, Dims dims = {}, bool keepdim = false);  ///< floating only
Tensor max(const Tensor& x, Dims dims = {}, bool keepdim = false);   ///< gradient shared among equal maxima
/// Gradient shared among equal minima.
Tensor min(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// The product; of integers and bool as i64.
Tensor prod(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// log Σ eˣ, without overflow.
Tensor logsumexp(const Tensor& x, Dims dims = {}, bool keepdim = false);
/// The variance: Σ (x - mean)² / (count - correction).
Tensor var(const Tensor& x, Dims dims = {}, bool keepdim = false, int correction = 1);
/// Index of the largest element, i64: the first of equal ones; NaN wins. Over all elements without `dim`.
Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
/// Sums over the dimensions along which broadcasting `shape` to x's shape repeats elements: the gradient of
/// broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);

// ---- along one dimension
/// eˣ over its sum along `dim`.
Tensor softmax(const Tensor& x, std::int64_t dim);
/// log(softmax(x)), without overflow.
Tensor log_softmax(const Tensor& x, std::int64_t dim);
/// Sums of the elements so far; with `reverse`, of those from here on. @return integers and bool as i64
Tensor cumsum(const Tensor& x, std::int64_t dim, bool reverse = false);
/// Keeps the last two dimensions on and below (triu: above) the k-th diagonal; sets the rest to 0.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

// ---- matrix products
/// Matrix product. Leading dimensions broadcast. A 1-d a is a row, a 1-d b a column; that dimension is dropped from the
/// result. f16 and bf16 accumulate in f32.
/// @param a [..., M, K] @param b [..., K, N] @return [..., M, N]
Tensor matmul(const Tensor& a, const Tensor& b);
/// The same with another result dtype: f32 for f16 or bf16 operands, so that the sums are not rounded.
Tensor matmul(const Tensor& a, const Tensor& b, DType out);
/// activation(x · weightᵀ + bias). For f16 and bf16 the gradients of weight and bias are f32; they are rounded once,
/// when a leaf accumulates them.
/// @param x [..., in] @param weight [out, in] @param bias [out] or undefined @return [..., out]
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Activation activation = Activation::none);
/// linear(linear(x, up, up_bias, activation), down, down_bias). The matmul kernels also compute the activation and its
/// derivative.
/// @param x [..., in] @param up [hidden, in] @param down [out, hidden]
/// @param up_bias, down_bias [hidden], [out] or undefined
Tensor feed_forward(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
                    const Tensor& down_bias, Activation activation);
/// y[o] = a · weight[o] · bᵀ + bias[o].
/// @param a [..., in1] @param b [..., in2], with the same leading sizes @param weight [out, in1, in2]
/// @param bias [out] or undefined @return [..., out]
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {});
/// (a · b) · activation'(at): the gradient of a matmul, passed back through the activation. @param at [..., M, N]
Tensor matmul_derivative(const Tensor& a, const Tensor& b, const Tensor& at, Activation activation);
/// Matrix product of i8 operands with exact i32 sums. Leading dimensions broadcast. Not differentiable.
/// @param a [..., M, K] @param b [..., K, N], K ≤ 131071 @return [..., M, N] i32
Tensor int8_matmul(const Tensor& a, const Tensor& b);
/// (a · b) · row_scale · column_scale, computed in f32 and rounded once to `out`: f32, f16 or bf16. For quantized
/// layers.
/// @param row_scale f32, [..., M] or one number; undefined: 1
/// @param column_scale f32, [N] or one number; undefined: 1
Tensor int8_matmul(const Tensor& a, const Tensor& b, const Tensor& row_scale, const Tensor& column_scale, DType out);
/// Attention (Vaswani et al. 2017). D and E are at most 256. causal: query i attends to keys 0 ... i, also where T ≠ S.
/// @param q [..., H, T, D] @param k [..., G, S, D], v [..., G, S, E] with G dividing H (grouped heads); kernels are for
/// E = D, so the smaller one is padded
/// @param mask undefined, bool (true: attend) or floating (added), broadcasting to [..., H, T, S]; not with causal
/// @param scale 1/√D by default
/// @return [..., H, T, E]; a row that may attend to nothing is 0
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask = {},
                                    bool causal = false, std::optional<double> scale = {});
/// Self-attention on the result of one fused projection. Reads q, k and v in place instead of copying them.
/// @param qkv [..., T, (H + 2 G) · D]: the H heads of q side by side, then the G heads of k, then those of v
/// @param kv_heads G; 0: as many as heads
/// @return [..., T, H · D], heads side by side
Tensor self_attention(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads = 0, bool causal = false,
                      std::optional<double> scale = {});

// ---- norms over the last dimension
/// (x - mean) / √(variance + eps) · weight + bias over the last dimension (Ba et al. 2016).
/// @param weight, bias [D] or undefined
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);
/// Root-mean-square norm (Zhang & Sennrich 2019). @param weight [D] or undefined
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-6);
/// A sum and its norm.
struct AddedNorm {
  Tensor sum, normed;
};
/// x + delta and its norm, in one pass forward and one pass backward: the kernel of the norm also adds to the residual
/// stream.
/// @param delta of x's shape, or of the shape of its last dimensions; the latter is repeated
AddedNorm add_layer_norm(const Tensor& x, const Tensor& delta, const Tensor& weight, const Tensor& bias,
                         double eps = 1e-5);
AddedNorm add_rms_norm(const Tensor& x, const Tensor& delta, const Tensor& weight, double eps = 1e-6);

/// The end of a transformer sublayer: sum = residual + linear(x, weight, bias), and the layer_norm of that sum, which
/// the next sublayer reads. On a GPU this is one kernel if the result has few rows of at most 256 elements: a small
/// model then waits for fewer kernels.
/// @param residual of the result's shape
/// @return both of the result's shape; under autocast the sum keeps the residual's dtype
AddedNorm linear_layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                            const Tensor& norm_weight, const Tensor& norm_bias, double eps = 1e-5);
/// The same with feed_forward(x, up, up_bias, down, down_bias, activation) instead of linear.
AddedNorm feed_forward_layer_norm(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
                                  const Tensor& down_bias, Activation activation, const Tensor& residual,
                                  const Tensor& norm_weight, const Tensor& norm_bias, double eps = 1e-5);

// ---- losses. Targets are class indices, i64 or i32.
/// -log softmax(logits)[target].
/// Rows whose target is ignore_index count neither in the sum nor in the mean; the mean of no rows is NaN. Any other
/// target outside [0, C) is an IndexError, thrown as described under indexing; on a GPU the row's loss and gradient are
/// NaN until then.
/// @param logits [N, C], [N, C, d...] or [C] @param target [N], [N, d...] or []
/// @return [] or, unreduced, of target's shape; f32, or f64 for f64 logits
Tensor cross_entropy(const Tensor& logits, const Tensor& target, std::int64_t ignore_index = -100,
                     double label_smoothing = 0, Reduction reduction = Reduction::mean);
/// cross_entropy(linear(x, weight, bias), target) without storing all logits at once. They are computed one chunk of
/// rows at a time; if gradients are wanted, each chunk is overwritten with its own gradient. Unreduced, this is the
/// composition.
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

// ---- indexing and joining
// An index outside its dimension, or negative, is an IndexError that names the op, the index and the dimension's size.
// The CPU throws it at the call. On a GPU the op continues with the nearest valid index, and the next call that waits
// for the device throws: item(), to(kCPU), to_vector(), read_later().get(), synchronize(). A captured step reports it
// again at each replay. The device stays usable.

/// Rows of a table.
/// @param weight [V, D] @param index [...] i64 or i32 in [0, V)
/// @param padding_idx a row that gets no gradient; a negative one counts from the end
/// @return [..., D]
Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<std::int64_t> padding_idx = {});
/// The gradient of embedding: adds row i of `grad` [..., D] to row index[i] of the result, in order. @return [rows, D]
Tensor embedding_backward(const Tensor& grad, const Tensor& index, std::int64_t rows);
/// Adds to an existing table: table[index[i]] += source[i]. In place, recorded; the table is contiguous.
/// @param table [rows, D] @param source [..., D] of the table's dtype
void index_add_(const Tensor& table, const Tensor& index, const Tensor& source);
/// Joins tensors along a dimension that they have. Other sizes are equal; dtypes are promoted.
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// Joins tensors of one shape along a dimension that the result gets.
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// The slices of one dimension at these positions, copied.
/// @param index [K] i64 or i32
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
/// out[i][j] = x[index[i][j]][j] for dim 0. @param index of x's rank, no larger than x outside `dim`
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
/// A copy of x with out[index[i][j]][j] += source[i][j] for dim 0. Equal indices add up in order, so the bits do not
/// vary.
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source);
/// Elements [start, start + length) of one dimension, copied bit for bit. The start is a number on the device, so a
/// captured step reads it again at every replay (each_step() makes one that the host sets).
/// @param start 0-d, i64 or i32. Outside [0, size - length] it is an error on the CPU and is clamped on a GPU.
/// @throws ShapeError if the length is outside [0, size of the dimension]
Tensor dynamic_slice(const Tensor& x, std::int64_t dim, const Tensor& start, std::int64_t length);
/// A copy of x in which `update` replaces the elements [start, start + update.size(dim)) of one dimension.
/// @param update x's shape except in `dim`, x's dtype @param start as above
Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, std::int64_t dim, const Tensor& start);

// ---- random: Philox4x32-10 (Salmon et al. 2011), the same bits on every device
/// Sets the process's seed and its offset to 0.
void manual_seed(std::uint64_t seed);
/// The seed that manual_seed() set.
std::uint64_t current_seed();
/// The state of the process's random number generator. Checkpoints store it, and recomputation restores it.
struct RandomState {
  std::uint64_t seed = 0, offset = 0;
};
/// The state to store, with which set_random_state() goes on.
RandomState random_state();
/// Goes on from a state that random_state() gave.
void set_random_state(const RandomState& state);
Tensor rand(Shape shape, TensorOptions options = {});   ///< uniform in [0, 1)
Tensor randn(Shape shape, TensorOptions options = {});  ///< standard normal
/// Uniform integers in [low, high).
Tensor randint(std::int64_t low, std::int64_t high, Shape shape, TensorOptions options = {DType::i64});
/// Zeroes each element with probability p and scales the rest by 1/(1-p).
Tensor dropout(const Tensor& x, double p, bool training = true);

}  // namespace etna

#include <etna/tensor/ops/attention/attention.h>
#include <etna/tensor/ops/batch_norm/batch_norm.h>
#include <etna/tensor/ops/convolution/convolution.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <etna/tensor/ops/elementwise/special.h>
#include <etna/tensor/ops/fft/fft.h>
#include <etna/tensor/ops/indexing/embedding_bag.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/linalg/linalg.h>
#include <etna/tensor/ops/loss/loss.h>
#include <etna/tensor/ops/pooling/pooling.h>
#include <etna/tensor/ops/random/distributions.h>
#include <etna/tensor/ops/random/stochastic.h>
#include <etna/tensor/ops/rearrange/rearrange.h>
#include <etna/tensor/ops/recurrent/recurrent.h>
#include <etna/tensor/ops/reduce/differences.h>
#include <etna/tensor/ops/reduce/reduce.h>
#include <etna/tensor/ops/resample/resample.h>
#include <etna/tensor/ops/sorting/sorting.h>
