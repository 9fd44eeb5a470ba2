#pragma once

#include <functional>
#include <optional>

#include <etna/tensor/op.h>
#include <etna/tensor/ops/attention/attention.h>

/// Scaled dot-product attention and its gradient: the implementation of the ops scaled_dot_product_attention and
/// self_attention and of their gradients.
namespace etna::attention {

struct AttentionAttrs {
  bool causal = false;  ///< query i attends to keys 0 ... i
  double scale = 1;
  std::int64_t heads = 0, groups = 0;  ///< for self_attention: heads of q, heads of k and v
  std::int64_t window = 0;             ///< above 0, causal: query i attends to keys i - window + 1 ... i
  double softcap = 0;                  ///< above 0: scores become softcap · tanh(scores / softcap), before the mask
};

/// @param documents undefined, or i32 [..., T, 2] @param leading sizes of q before its heads
/// @throws Error, ShapeError, DtypeError that name `op`
void check_limits(const char* op, const AttentionAttrs& attributes, const Tensor& documents, const Shape& leading,
                  std::int64_t queries, std::int64_t keys);
/// Settings whose chunk has become documents. @param leading sizes of q before its heads @param queries, keys rows of q
/// and k @throws Error for a chunk that is negative or without causal, or together with documents
AttentionSettings with_chunk_as_documents(const char* op, const AttentionSettings& settings, const Shape& leading,
                                          std::int64_t queries, std::int64_t keys, Device device);
/// What queries attend to by triangle, window and documents: bool [T, S] or [..., 1, T, S]; undefined: all.
/// @param past how many keys come before the first query's own
Tensor attended(const AttentionAttrs& attributes, const Tensor& documents, std::int64_t queries, std::int64_t keys,
                std::int64_t past, Device device);
/// What is beside q, k and v; each may be undefined.
struct Extras {
  Tensor mask = {}, documents = {}, sinks = {};
};
/// scaled_dot_product_attention() with what else the op knows. @param scale 1/√D by default
Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v, const Extras& extras, AttentionAttrs attributes,
             std::optional<double> scale);
/// @return sinks @throws ShapeError, DtypeError unless they are [H], floating
const Tensor& checked_sinks(const Tensor& sinks, std::int64_t heads);
/// The same with sinks, of operands in one dtype. @param extras with sinks [H] @return the result
Tensor fused_with_sinks(const Tensor& q, const Tensor& k, const Tensor& v, const Extras& extras,
                        const AttentionAttrs& attributes);
/// Of scaled_dot_product_attention: the result and logsumexp. @throws ShapeError, DtypeError
std::vector<OutputSpec> infer(const OpCall& call);

/// Row statistics are f32, or f64 for f64 inputs.
constexpr DType row_dtype(DType t) { return t == f64 ? f64 : f32; }

/// q, k, v with their leading dimensions merged into one: [B, H, T, D], [B, G, S, D], [B, G, S, E]; the last stride is
/// 1. The mask is [B, H, T, S] with stride 0 along repeated dimensions. Views if strides allow.
struct Inputs {
  Tensor q, k, v, mask;
  Tensor documents;  ///< undefined, or dense [B, T, 2] i32; not with a mask
  std::int64_t batch = 0, heads = 0, groups = 0, queries = 0, keys = 0, size = 0, value_size = 0;

  std::int64_t heads_per_group() const { return heads / groups; }
};
/// From a call whose first inputs are q, k, v, mask, documents.
Inputs inputs(const OpCall& call);
/// From qkv [..., T, (H + 2 G) · D]: the last dimension holds the heads of q, then those of k, then those of v.
Inputs packed_inputs(const Tensor& qkv, const Tensor& documents, const AttentionAttrs& attributes);
/// x [..., A, B, C] as [batch, A, B, C] with last stride 1.
Tensor merge_leading(const Tensor& x, std::int64_t batch);
/// x [..., T, n · D] as [batch, n, T, D]: a view if x is contiguous, as results are.
Tensor heads_of(const Tensor& x, std::int64_t batch, std::int64_t n);

/// Runs a call whose heads of values have another size: the smaller heads are filled up with zeros, which changes
/// neither scores nor other values. @param call, out of forward or of backward @param run of heads of one size
/// @return what run() returns
bool with_equal_heads(const OpCall& call, std::span<Tensor> out,
                      const std::function<bool(const OpCall&, std::span<Tensor>)>& run);

/// The results of forward that backward needs: the result, its gradient, both [B, H, T, D], and logsumexp, dense [B, H,
/// T].
struct Kept {
  Tensor y, logsumexp, dy;
};

/// Inputs q, k, v, mask, documents. @param out the result [..., H, T, D], logsumexp of each row's scores [..., H, T]
void forward_cpu(const OpCall& call, std::span<Tensor> out);
bool forward_gpu(const OpCall& call, std::span<Tensor> out);

/// Multiplies rows by what their keys have of the weights beside the sink, and adds the sink to logsumexp, in place.
/// @param y [..., H, T, D] @param logsumexp [..., H, T], both dense @param sinks [H], dtype of logsumexp
void add_sinks_cpu(Tensor& y, Tensor& logsumexp, const Tensor& sinks);
void add_sinks_gpu(const OpCall& call, Tensor& y, Tensor& logsumexp, const Tensor& sinks);

/// Inputs q, k, v, mask, documents, result, logsumexp, gradient of the result. @param out dq, dk, dv
void backward_cpu(const OpCall& call, std::span<Tensor> out);
bool backward_gpu(const OpCall& call, std::span<Tensor> out);

/// Inputs qkv, documents. Reads and writes the heads in place.
/// @param out the result [..., T, H · D], logsumexp [..., H, T]
void self_forward_cpu(const OpCall& call, std::span<Tensor> out);
bool self_forward_gpu(const OpCall& call, std::span<Tensor> out);

/// Inputs qkv, documents, result, logsumexp, gradient of the result. @param out dqkv
void self_backward_cpu(const OpCall& call, std::span<Tensor> out);
bool self_backward_gpu(const OpCall& call, std::span<Tensor> out);

/// Operands of the composed op.
struct Operands {
  Tensor q, k, v, mask, documents, sinks = {};
};
/// Attention composed of base ops. Rows that attend to nothing give 0.
Tensor composed(const Operands& in, const AttentionAttrs& attributes);
/// logsumexp of each row's scores, the sink's included.
Tensor composed_logsumexp(const Operands& in, const AttentionAttrs& attributes);
/// dq, dk, dv, dmask if the mask is floating, and dsinks if there are sinks; composed of base ops from the inputs and
/// the result's gradient.
TensorList composed_gradients(const Operands& in, const Tensor& gradient, const AttentionAttrs& attributes);

}  // namespace etna::attention
