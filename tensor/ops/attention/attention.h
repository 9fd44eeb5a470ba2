#pragma once

#include <cstdint>
#include <optional>

#include <etna/tensor/tensor.h>

/// Attention, rotary positions, and attention to cached keys and values of earlier calls, which a decoder needs to
/// generate text.
namespace etna {

// ---- attention
/// Attention (Vaswani et al. 2017). D and E are at most 256. causal: query i attends to keys 0 ... i, even if T ≠ S.
/// @param q [..., H, T, D] @param k [..., G, S, D], v [..., G, S, E] with G dividing H (grouped heads); most kernels
/// require E = D, and get the smaller one padded
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
struct AttentionSettings;
/// The same with a window, a chunk, a soft cap and documents. @throws Error for a mask, dropout and sinks, which need
/// dot_product_attention()
Tensor self_attention(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const AttentionSettings& settings);

/// Rotary position embedding (Su et al. 2021): rotates pairs of elements of each row by its position times the pair's
/// frequency, so that dot products of queries and keys depend on distances. One pass; angles are computed in f32 (f64
/// for f64).
/// @param x [..., T, D]
/// @param frequencies [R/2], floating, R ≤ D, as returned by rotary_frequencies(); elements from R on are unchanged. No
/// gradient flows to frequencies
/// @param positions of the rows, i64 or i32. Undefined: 0 ... T-1. 0-d: the position of the first row, and the others
/// count up (a number on the device, so that a captured decoding step reads it at every replay). [T]: one for each row
/// @param interleaved pairs are neighbours, (0, 1), (2, 3) ... (GPT-J, the paper); else (0, R/2), (1, R/2 + 1) ...
/// (GPT-NeoX, Llama of Hugging Face)
/// @throws ShapeError, DtypeError
Tensor rope(const Tensor& x, const Tensor& frequencies, const Tensor& positions = {}, bool interleaved = false);
/// base^(-2i/size) for i = 0 ... size/2 - 1, f32. @param size R, even @throws ShapeError
Tensor rotary_frequencies(std::int64_t size, double base = 10000, Device device = {});
/// The same rotation by given cosines and sines: differentiable in all three, composed of base ops.
/// @param cos, sin [T, R/2], or broadcasting to [..., T, R/2]
Tensor apply_rotary(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved = false);

/// Settings of dot_product_attention().
struct AttentionSettings {
  Tensor mask = {};              ///< bool (true: attend) or floating (added), broadcasting to [..., H, T, S]
  bool causal = false;           ///< also together with a mask
  bool causal_from_end = false;  ///< causal when the queries are the last T of S positions: keys of a cache come first
  std::optional<double> scale = {};  ///< 1/√D
  double softcap = 0;       ///< above 0: scores become softcap · tanh(scores / softcap), before the mask (Gemma 2)
  double dropout = 0;       ///< of the weights; the caller passes 0 outside training
  std::int64_t window = 0;  ///< above 0, causal: a query attends to so many keys, its own included
  std::int64_t chunk = 0;   ///< above 0, causal: queries attend within chunks of so many keys of a document (Llama 4)
  Tensor documents = {};    ///< of document_bounds(), [..., T, 2]: texts of a row do not attend to each other
  Tensor sinks = {};        ///< [H], floating: a score of each head beside those of keys, without a value (gpt-oss)
};
/// scaled_dot_product_attention() with more settings. dropout computes all weights. Everything else runs the fused op,
/// which skips keys outside of windows and documents; what comes together with a mask, and causal_from_end, become a
/// mask [T, S].
/// @param q [..., H, T, D] @param k [..., G, S, D] @param v [..., G, S, E] @return [..., H, T, E]
/// @throws ShapeError, DtypeError, and Error for a window or a chunk that is negative or without causal, and for a
/// softcap that is negative or not finite
Tensor dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSettings& settings = {});

/// The bounds of documents that are packed in rows of T positions, as AttentionSettings takes them: for each position,
/// the first one of its document and the one behind its last. Positions behind the last document are one more. They are
/// numbers on the device: a captured step reads them at each replay. Kernels rely on documents being contiguous; other
/// bounds give unspecified results, but read nothing outside of the operands. In forward, NaN in q or k stays in its
/// document; in values, and in backward, it may reach another one in the same tile of positions, as 0 · NaN.
/// @param lengths [..., N] i32 or i64, of the documents in order; 0: none @return [..., T, 2] i32
/// @throws ShapeError, DtypeError
Tensor document_bounds(const Tensor& lengths, std::int64_t positions);

/// The result of attention_with_weights().
struct WeightedAttention {
  Tensor output;   ///< [..., H, T, E]
  Tensor weights;  ///< [..., H, T, S], after softmax and before dropout
};
/// dot_product_attention() that also returns the weights, for inspection.
WeightedAttention attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionSettings& settings = {});

// ---- a paged cache: blocks of kCacheBlock positions, allocated as sequences grow (Kwon et al. 2023)
inline constexpr std::int64_t kCacheBlock = 64;

/// Keys and values of one layer, [blocks, G, kCacheBlock, row]: f32, f16 or bf16 with rows of D; or u8 with rows of
/// cache_row_bytes(D), which hold Q8_0. Where values are undefined, rows of keys are values, too (latent attention).
struct PagedCache {
  Tensor keys, values;
};

/// Bytes of a row of D elements in Q8_0: an f16 scale and 32 quants for each 32 elements.
/// @throws ShapeError if 32 does not divide D
std::int64_t cache_row_bytes(std::int64_t head_size);
/// An empty cache. @param dtype f32, f16, bf16, or u8 for Q8_0
PagedCache paged_cache(std::int64_t blocks, std::int64_t kv_heads, std::int64_t head_size, TensorOptions options = {});

/// The blocks and positions of sequences. Both are on the cache's device, so that a captured step reads them at each
/// replay.
struct CachePlaces {
  Tensor table;      ///< [B, M] i32: position p of a sequence is in block table[b, p / kCacheBlock]; -1: none
  Tensor positions;  ///< [B] i32: position of the first of T new rows; the others count up
};

struct RotarySettings {
  std::int64_t heads = 0, kv_heads = 0;
  Tensor frequencies = {};   ///< [R/2] f32 as in rope(); undefined: nothing is rotated
  bool interleaved = false;  ///< as in rope()
  double magnitude = 1;      ///< factor for the rotated elements
  Tensor query_norm = {};    ///< [D]: RMS norm of each head of queries before the rotation
  Tensor key_norm = {};
  double eps = 1e-6;
  std::optional<DType> dtype = {};  ///< dtype of the returned queries; by default that of qkv
};

/// Rotates queries and keys and writes keys and values into the cache, in one pass. Skips rows that have no block. Not
/// differentiable.
/// @param qkv [B, T, (H + 2 G) · D] floating, in the layout of self_attention(); [B, T, (H + G) · D] for a cache
/// without values
/// @return the queries [B, T, H, D] @throws ShapeError, DtypeError
Tensor rotate_and_cache_(const Tensor& qkv, PagedCache& cache, const CachePlaces& places,
                         const RotarySettings& settings);

struct PagedAttentionSettings {
  double scale = 0;         ///< factor of scores; 0: 1/√D
  double softcap = 0;       ///< as in AttentionSettings
  std::int64_t window = 0;  ///< number of positions a query attends to, including its own; 0: all
  std::int64_t chunk = 0;   ///< above 0, in place of a window: as in AttentionSettings
  Tensor sinks = {};        ///< as in AttentionSettings, on the cache's device
};

/// Causal attention of T new queries to the keys of their sequence, including their own, which rotate_and_cache_() has
/// written. Skips positions without a block; a query that may attend to nothing gives 0. Of 16 rows or more, a GPU with
/// matrix units multiplies in the dtype of q if the cache has it too; sums and softmax are f32. Not differentiable.
/// @param q [B, T, H, D] @return [B, T, H, D]
/// @throws ShapeError, DtypeError
Tensor paged_attention(const Tensor& q, const PagedCache& cache, const CachePlaces& places,
                       const PagedAttentionSettings& settings = {});

/// rotate_and_cache_(), then attention to the cache by the fastest kernels. If each sequence has one new row, a GPU
/// runs both in one dispatch. A prompt, 16 rows or more, is multiplied in 16 bits, if the device has matrix units and
/// the cache stores at most 16 bits. Rounding queries and results to bf16 there costs up to 1e-2 of 1.
/// Not differentiable.
/// @param qkv as for rotate_and_cache_() @return [B, T, H · D] in the dtype of qkv @throws ShapeError, DtypeError
Tensor rotate_and_attend_(const Tensor& qkv, PagedCache& cache, const CachePlaces& places, const RotarySettings& rotary,
                          const PagedAttentionSettings& attention = {});

/// The first `length` positions of each sequence, read from keys or values; 0 where there is no block. Not
/// differentiable.
/// @param table [B, M] i32 @return [B, G, length, D] @throws ShapeError, DtypeError
Tensor cached_rows(const Tensor& cache, const Tensor& table, std::int64_t length, DType dtype = f32);

}  // namespace etna
