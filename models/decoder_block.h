#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <etna/device/owned.h>
#include <etna/models/decoder_config.h>
#include <etna/models/projection.h>
#include <etna/nn/dropout.h>
#include <etna/nn/module.h>
#include <etna/tensor/ops/attention/attention.h>

namespace etna::models {

/// A norm over the last dimension, of either kind.
class Norm : public nn::UnaryModule {
 public:
  Norm(Weights& weights, const std::string& name, NormKind kind, std::int64_t size, double eps, bool bias = false);
  Tensor forward(const Tensor& x) const override;
  std::string extra_repr() const override;

  const NormKind kind;
  const double eps;
  Tensor weight, bias;
};

struct ImageChunk;
class ConvolutionMixer;
class DeltaMixer;
class MambaMixer;
struct LayerState;

/// Queries, keys and values of all heads: side by side, [B, T, heads · D] each, or as attention reads them.
struct AttentionRows {
  Tensor query, key, value;
};

/// Which positions see each other in layers with a window in both directions, by the positions on each side.
using WindowMasks = std::map<std::int64_t, Tensor>;

/// An image as a decoder reads it: rows in the places of tokens.
struct ImageRows {
  Tensor rows;  ///< [N, width]
  std::vector<Tensor> deep =
      {};                    ///< [N, width] each: added to what the first blocks give (DeepStack, Meng et al. 2024)
  std::int64_t columns = 1;  ///< of the grid that the rows are, line after line
  /// Images of one number, above 0, have the same rows: prompts with them share what the cache has. 0: nobody knows.
  std::int64_t content = 0;
};

/// Images in a prompt.
struct PromptImages {
  std::vector<ImageRows> images;
  std::vector<std::int64_t> places;  ///< of each, ascending: the token in whose place its first row stands
  bool both_ways = false;            ///< rows of an image see each other, also those behind them (Gemma 3)
};

/// Where a decoder's layers keep keys and values, or a state, while it generates, the adapter of each sequence, and
/// what blocks read besides the residual stream.
struct DecoderCache {
  std::vector<PagedCache>* layers = nullptr;  ///< null: nothing is kept, only the others count
  CachePlaces places = {};
  Tensor adapters = {};           ///< as ProjectionMode::adapters
  AdapterMasks* masks = nullptr;  ///< of a step on one device
  /// Of document_bounds(), where rows are several texts each; not together with layers.
  Tensor documents = {};
  WindowMasks* windows = nullptr;  ///< of a step on one device, which its layers share; null: each makes its own
  Tensor layer_inputs = {};        ///< [B, T, layers · DecoderConfig::layer_inputs.size]; undefined: there are none
  /// By layer: rotated keys and values [B, G, T, D] that later layers attend to, where nothing is kept.
  std::map<std::int64_t, AttentionRows>* shared = nullptr;
  LayerState* states = nullptr;        ///< of each layer; null: none keeps one
  Tensor state_rows = {};              ///< [B] i32: each sequence's row of the states
  Tensor counts = {};                  ///< [B] i32: new rows that are no padding, the first ones; undefined: all
  const ImageChunk* images = nullptr;  ///< together with layers, of one sequence; null: all rows are those of tokens

  ProjectionMode mode() const { return {layers != nullptr, adapters, masks}; }
};

/// Bytes of the keys and values of latent attention that are made of the cache's rows at once.
inline constexpr std::int64_t kLatentBytes = std::int64_t{1} << 28;

/// The projections of latent attention. Without a cache they give keys and values of all heads, values padded with
/// zeros to the size of keys. A cache keeps one row of a position for all heads: the rotated elements, then the latent
/// ones. Since a key is a product of the latter, so is a query of that width (DeepSeek-V2's absorbed form): each head
/// multiplies it by its keys' part of `up`, and what it attends to by its values' part. For prompts, keys and
/// values of all heads are made of the cache's rows instead (expanded_rows()).
class LatentProjections : public nn::Module {
 public:
  /// @param config must outlive this
  LatentProjections(Weights& weights, const std::string& name, const DecoderConfig& config);
  /// @param x [B, T, width]
  AttentionRows rows(const Tensor& x, const ProjectionMode& mode) const;
  /// The result without the padding. @param y [B, T, heads · D] @return [B, T, heads · value_size]
  Tensor unpadded(const Tensor& y) const;
  /// Queries of all heads, then the row that the cache keeps, before rotation.
  /// @param x [B, T, width] @return [B, T, (heads + 1) · R], where R = rope.size + latent.size
  Tensor cached_rows(const Tensor& x, const ProjectionMode& mode) const;
  /// @param y the rows that heads attend to, [B, T, heads · R] @return [B, T, heads · value_size]
  Tensor values_of(const Tensor& y, const ProjectionMode& mode) const;
  /// Before rotation: queries [B, T, heads · D], their rotated elements first, and as `key` the row that the cache
  /// keeps, [B, T, R]. @param x [B, T, width]
  AttentionRows short_rows(const Tensor& x, const ProjectionMode& mode) const;
  /// Attention to keys and values that are made of the cache's rows, for a few heads at a time where these are many.
  /// @param query rotated, [B, T, heads, D] @param cached [blocks, 1, kCacheBlock, R], the new rows among them
  /// @param most_bytes of keys and values at once, unless one head has more @return [B, T, heads · value_size]
  Tensor attend_expanded(const Tensor& query, const PagedCache& cached, const CachePlaces& places,
                         const PagedAttentionSettings& settings, const ProjectionMode& mode,
                         std::int64_t most_bytes = kLatentBytes) const;

  Owned<Projection> query_down;  ///< null where queries have one projection
  Owned<Norm> query_norm;
  Projection query, down;  ///< down: to the short row, and the rotated elements of keys
  Norm norm;
  Projection up;

 private:
  /// A matrix of each head, one below the other: keys' transposed, [heads · latent.size, still elements of a head], and
  /// values', [heads · value_size, latent.size].
  struct Halves {
    QuantizedTensor keys, values;
  };
  /// What is computed alike with and without a cache: queries of heads, latent elements, and the rotated ones.
  struct Parts {
    Tensor query, latent, turned;
  };
  Parts parts(const Tensor& x, const ProjectionMode& mode) const;
  Halves halves() const;
  Halves split() const;
  Tensor by_head(const Tensor& x, const QuantizedTensor& matrices) const;
  Tensor part_of(const Tensor& rows, bool values) const;
  Tensor absorbed(const Tensor& query, const ProjectionMode& mode) const;
  using Product = std::function<Tensor(const Tensor&, const Tensor&)>;
  Tensor with_adapters(const Tensor& latent, const Tensor& own, const Tensor& factors, const ProjectionMode& mode,
                       const Product& times) const;
  Tensor up_of_heads(const Tensor& latent, std::int64_t first, std::int64_t end, const ProjectionMode& mode) const;
  PagedCache expanded(const Tensor& rows, std::int64_t first, std::int64_t end, const ProjectionMode& mode) const;

  const DecoderConfig& config_;
  mutable Halves halves_;  ///< of the frozen matrix whose blocks are `halves_of_`
  mutable Tensor halves_of_ = {};
};

/// Self-attention, causal or in both directions, with shared keys, rotary positions and what DecoderConfig says.
class DecoderAttention : public nn::Module {
 public:
  /// @param config of the rank's part
  DecoderAttention(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer,
                   const ModelSplit& split = {});
  /// @param x [B, T, width] @param cache of earlier rows, which gets those of x; null: x is whole, and gradients flow
  /// @return [B, T, width] @throws Error where it shares keys of a layer that `cache` does not have
  Tensor forward(const Tensor& x, const DecoderCache* cache = nullptr) const;

  Owned<Projection> qkv;                ///< all three, rows one below the other; null where they are separate
  Owned<Projection> query, key, value;  ///< null where they are one, or latent; keys and values where there are none
  Owned<LatentProjections> latent;      ///< null where attention is not latent
  Projection output;
  Owned<Projection> gate;                      ///< null where the result is not gated
  Owned<Norm> query_norm, key_norm, sub_norm;  ///< null where the model has none
  Tensor sinks;                                ///< [heads], or undefined

 private:
  /// @param own config.of_layer(layer)
  DecoderAttention(Weights& weights, const std::string& name, const DecoderConfig& config, const DecoderConfig& own,
                   std::int64_t layer, const ModelSplit& split);
  Tensor rotated(const Tensor& x, const Tensor& positions = {}) const;
  Tensor gated(const Tensor& y, const Tensor& x, const ProjectionMode& mode) const;
  Tensor tempered(const Tensor& query, const DecoderCache* cache) const;
  Tensor normed(const Tensor& rows, const Owned<Norm>& norm) const;
  AttentionRows rows_of(const Tensor& x, const ProjectionMode& mode, const DecoderCache* cache) const;
  AttentionSettings settings(const Tensor& x, const DecoderCache* cache) const;
  Tensor window_mask(std::int64_t steps, Device device, const DecoderCache* cache) const;
  PagedAttentionSettings paged_settings() const;
  Tensor head_norm_weight(const Owned<Norm>& norm, Device device) const;
  Tensor heads_of(const Tensor& rows, const Tensor& norm) const;
  AttentionRows rotated_rows(const AttentionRows& rows, const DecoderCache* cache) const;
  Tensor attend(const AttentionRows& rows, const DecoderCache* cache) const;
  Tensor attend(const Tensor& qkv, const DecoderCache* cache) const;
  RotarySettings rotary_settings(Device device) const;
  Tensor attend_to_cache(const Tensor& qkv, const DecoderCache& cache) const;
  Tensor attend_to_expanded(const Tensor& x, const DecoderCache& cache) const;
  Tensor attend_to_latent(const Tensor& x, const DecoderCache& cache) const;
  Tensor placed(const Tensor& query, const CachePlaces& places) const;
  Tensor attend_to_images(const Tensor& qkv, const DecoderCache& cache, RotarySettings rotary) const;
  Tensor turned(const Tensor& qkv, const Tensor& pair_positions, const RotarySettings& rotary) const;
  Tensor attend_to_shared(const Tensor& query, const DecoderCache& cache) const;

  const DecoderConfig config_;  ///< with the sizes of the layer
  const std::int64_t index_;
  const bool is_shared_;  ///< later layers attend to its keys
  const LayerConfig layer_;
  const ModelSplit split_;
  mutable Tensor frequencies_, unit_;  ///< unit_: [head_size] of 1; both follow x to its device
};

/// xIELU (Huang & Schlag 2025), whose quadratic and exponential parts have a learned factor each:
/// a·x² + b·x above 0, else c·(e^min(x, eps) - 1 - x) + b·x, with a = softplus(alpha_p), c = b + softplus(alpha_n).
class Xielu : public nn::UnaryModule {
 public:
  Xielu(Weights& weights, const std::string& name);
  Tensor forward(const Tensor& x) const override;

  Tensor alpha_p, alpha_n;  ///< [1], trained
  Tensor beta, eps;         ///< [1]: b above, and the largest x whose exponential is computed
};

/// Experts of each row of a batch, and what their results are multiplied by.
struct ChosenExperts {
  Tensor expert;  ///< [R, chosen] i32 or i64
  Tensor factor;  ///< [R, chosen] f32
};

/// Chooses the experts that a position passes.
class ExpertRouter : public nn::Module {
 public:
  /// @param config must outlive this
  ExpertRouter(Weights& weights, const std::string& name, std::int64_t width, const ExpertConfig& config);
  /// The choice stays on the device. @param x [R, width]
  ChosenExperts choose(const Tensor& x, const ProjectionMode& mode) const;

  Projection logits;   ///< [experts, width]
  Tensor choice_bias;  ///< [experts], or undefined

 private:
  const ExpertConfig& config_;
};

/// down(act(gate(x)) ⊙ up(x)), or down(act(up(x))). With a router, a mixture of experts: the matrices of all experts
/// are one below the other in each projection.
class DecoderFeedForward : public nn::Module {
 public:
  /// @param columns between the matrices @param experts of a mixture, which must outlive this; null: one layer for all
  /// @param sparsity as LayerConfig::sparsity
  DecoderFeedForward(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t columns,
                     const ExpertConfig* experts = nullptr, const ModelSplit& split = {}, double sparsity = 0);
  Tensor forward(const Tensor& x, const ProjectionMode& mode = {}) const;
  /// What chosen experts make of rows. @param x [R, DecoderConfig::expert_width()] @return the same
  Tensor experts(const Tensor& x, const ChosenExperts& chosen, const ProjectionMode& mode) const;

  Owned<ExpertRouter> router;  ///< null where there are no experts
  Owned<Projection> gate;      ///< null where there is none
  Projection up, down;
  Owned<Norm> sub_norm;
  Owned<Xielu> xielu;                        ///< null where the activation has no parameters
  Owned<DecoderFeedForward> shared;          ///< beside the experts, for all positions; null where there is none
  Owned<Projection> shared_gate;             ///< to one score, by whose sigmoid the shared layer's result is multiplied
  Owned<Projection> latent_down, latent_up;  ///< to experts' rows, and back; null where these are the block's

 private:
  Tensor forward_part(const Tensor& x, const ProjectionMode& mode) const;
  Tensor between(const Tensor& gate, const Tensor& up) const;
  Tensor cut_off(const Tensor& gate) const;

  const Activation activation_;
  const double gate_scale_, down_scale_;
  const ModelSplit split_;
  const double deviations_;               ///< of the gate's elements, below which one is 0; NaN: none is
  const ExpertConfig* config_ = nullptr;  ///< null where there are no experts
};

class BlockInput;
class ExpertsBeside;
class Laurel;
class StreamMixer;

/// A projection and what its block calls it: "attention.query".
struct NamedProjection {
  std::string name;
  Projection* layer;
};

/// x + mixer(norm(x)), then the same with the feed-forward layer; parallel blocks add both to x at once. Norms may also
/// be behind each sublayer, or only there. The mixer is attention, a layer that keeps a state, or both.
class DecoderBlock : public nn::UnaryModule {
 public:
  /// @param config of the rank's part, which must outlive this
  DecoderBlock(Weights& weights, const std::string& name, const DecoderConfig& config, std::int64_t layer,
               const ModelSplit& split = {});
  ~DecoderBlock() override;
  Tensor forward(const Tensor& x) const override { return forward(x, nullptr); }
  /// @param x [B, T, width], or all streams side by side @param cache as for DecoderAttention
  /// @throws Error where the block reads inputs that `cache` does not have
  Tensor forward(const Tensor& x, const DecoderCache* cache) const;
  using UnaryModule::operator();
  /// forward() between the block's hooks.
  Tensor operator()(const Tensor& x, const DecoderCache* cache) const;

  /// Of its weights.
  Device device() const;
  /// Those that there are, in the order in which they run. @param all also those of the feed-forward layer
  std::vector<NamedProjection> projections(bool all = true);
  /// Those that adapters may stand beside: besides, of a layer that keeps a state, of experts and of shared experts.
  std::vector<NamedProjection> adapter_layers();

  Owned<Norm> attention_norm;         ///< of the mixer; null in blocks whose norms are behind
  Owned<DecoderAttention> attention;  ///< null in blocks without one, as those below
  Owned<DeltaMixer> delta;
  Owned<MambaMixer> mamba;
  Owned<ConvolutionMixer> convolution;
  Owned<Norm> attention_post_norm;
  Owned<Norm> ffn_norm;  ///< null in blocks whose norms are behind, and in parallel ones with one norm
  Owned<DecoderFeedForward> ffn;
  Owned<Norm> ffn_post_norm;
  Owned<ExpertsBeside> beside;  ///< null where there are no experts besides ffn, as the next three
  Owned<Laurel> laurel;
  Owned<StreamMixer> mixer;
  Owned<BlockInput> input;
  Tensor scale;         ///< [1], or undefined
  nn::Dropout dropout;  ///< of what is added to x; not while generating

 private:
  Tensor sublayers(const Tensor& x, const DecoderCache* cache) const;
  Tensor own_input(const DecoderCache* cache) const;
  Tensor mixed(const Tensor& x, const DecoderCache* cache) const;

  const bool parallel_;
  const double residual_scale_, attention_input_scale_, attention_output_scale_;
  const std::int64_t index_;
};

}  // namespace etna::models
