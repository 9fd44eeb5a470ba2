#pragma once

#include <cstdint>
#include <optional>

#include <etna/tensor/tensor.h>

/// Parts of transformers beside attention itself: rotary positions, gated activations, attention with more settings.
namespace etna {

/// Rotary position embedding (Su et al. 2021): rotates pairs of elements of each row by its position times the pair's
/// frequency, so that products of queries and keys depend on distances. One pass; angles are computed in f32 (f64 for
/// f64).
/// @param x [..., T, D]
/// @param frequencies [R/2], floating, R ≤ D, as rotary_frequencies() makes them; elements from R on stay. They are not
/// differentiated
/// @param positions of the rows, i64 or i32: undefined: 0 ... T-1; 0-d: of the first row, the others follow (a number
/// on the device, so that a captured decoding step reads it at every replay); [T]: of each row
/// @param interleaved pairs are neighbours, (0, 1), (2, 3) ... (GPT-J, the paper); else (0, R/2), (1, R/2 + 1) ...
/// (GPT-NeoX, Llama of Hugging Face)
/// @throws ShapeError, DtypeError
Tensor rope(const Tensor& x, const Tensor& frequencies, const Tensor& positions = {}, bool interleaved = false);
/// base^(-2i/size) for i = 0 ... size/2 - 1, f32. @param size R, even @throws ShapeError
Tensor rotary_frequencies(std::int64_t size, double base = 10000, Device device = {});
/// The same rotation by given cosines and sines: differentiable in all three, composed of base ops.
/// @param cos, sin [T, R/2], or broadcasting to [..., T, R/2]
Tensor apply_rotary(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved = false);

/// Gated activations (Shazeer 2020): silu(gate) · up and gelu(gate) · up. Captured, one kernel.
Tensor swiglu(const Tensor& gate, const Tensor& up);
/// gelu(gate) · up (Shazeer 2020). Captured, one kernel.
Tensor geglu(const Tensor& gate, const Tensor& up);

/// Settings of dot_product_attention().
struct AttentionSettings {
  Tensor mask = {};     ///< bool (true: attend) or floating (added), broadcasting to [..., H, T, S]
  bool causal = false;  ///< also together with a mask
  bool causal_from_end =
      false;  ///< causal, where the queries are the last T of S positions: keys of a cache come first
  std::optional<double> scale = {};  ///< 1/√D
  double softcap = 0;                ///< above 0: scores become softcap · tanh(scores / softcap) (Gemma 2)
  double dropout = 0;                ///< of the weights; the caller passes 0 outside training
};
/// scaled_dot_product_attention() with more settings. softcap and dropout compute all weights; everything else runs the
/// fused op: heads of v of another size are padded with zeros, and causal_from_end becomes a mask [T, S].
/// @param q [..., H, T, D] @param k [..., G, S, D] @param v [..., G, S, E] @return [..., H, T, E]
Tensor dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSettings& settings = {});

/// What attention with weights returns.
struct WeightedAttention {
  Tensor output;   ///< [..., H, T, E]
  Tensor weights;  ///< [..., H, T, S], after softmax and before dropout
};
/// The same with the weights, for those who want to see them.
WeightedAttention attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionSettings& settings = {});

}  // namespace etna
