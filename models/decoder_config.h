#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/error.h>
#include <etna/tensor/ops/activations/activations.h>

namespace etna::io {
class GgufFile;
struct Llama2cConfig;
}  // namespace etna::io

/// Language models that others trained, and those that are trained here to the same design.
namespace etna::models {

enum class NormKind : std::uint8_t { rms, layer };
enum class PositionKind : std::uint8_t { rotary, learned };

/// How rotary positions beyond the length a model was trained with are handled.
enum class RopeScaling : std::uint8_t {
  none,
  linear,   ///< positions are divided by the factor
  ntk,      ///< the base grows with the factor, for texts of any length (bloc97 2023)
  yarn,     ///< low frequencies are divided, high ones kept (Peng et al. 2023)
  llama3,   ///< the same with the boundaries of Llama 3.1
  longrope  ///< each frequency has a divisor of its own (Ding et al. 2024)
};

struct RopeConfig {
  std::int64_t size = 0;  ///< elements of a head that are rotated, even; the others stay
  double base = 10000;
  double turning = 1;        ///< share of the pairs that turn; the others have frequency 0 (Gemma 4)
  bool interleaved = false;  ///< pairs are neighbours, as in Meta's files and GGUF's of llama; else half a head apart
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  std::int64_t original_context = 0;  ///< positions of the training before scaling; 0: the model's context
  double attention_factor = 0;        ///< of rotated elements (yarn, longrope); 0: by the rule of the scaling
  double beta_fast = 32, beta_slow = 1, extrapolation = 1;     ///< yarn
  bool whole_bounds = true;                                    ///< yarn: the first and last pair are rounded
  double low_frequency_factor = 1, high_frequency_factor = 4;  ///< llama3
  std::vector<float> divisors = {};                            ///< of each frequency, from the file; empty: all 1
  std::vector<float> short_divisors = {};  ///< longrope, for models whose context is the original one
  std::vector<float> long_divisors = {};   ///< longrope, for models with a longer context
  /// In prompts with images (M-RoPE of Qwen3-VL): pair 3i + 1 turns by a row's line in its image where i is below the
  /// first number, pair 3i + 2 by its column where i is below the second, and all others by the image's position.
  /// Empty: all turn by the row's own position.
  std::vector<std::int64_t> pairs_by_place = {};
};

/// How a layer lets positions see others.
enum class MixerKind : std::uint8_t {
  attention,
  delta,                ///< gated delta net (Yang et al. 2024)
  mamba,                ///< Mamba-2 (Dao & Gu 2024)
  convolution,          ///< short convolution between two gates (LFM2)
  attention_and_mamba,  ///< both, whose results are added (Falcon-H1)
  none
};

/// What a layer has that others of the decoder may not have.
struct LayerConfig {
  std::int64_t window = 0;   ///< a position attends to so many positions, itself included; 0: to all
  bool rotary = true;        ///< queries and keys are rotated, where DecoderConfig::positions says so
  bool temperature = false;  ///< DecoderConfig::temperature scales its queries
  bool experts = false;      ///< its feed-forward layer is a mixture of experts
  std::int64_t chunk = 0;    ///< above 0, without a window: a position attends within its chunk of so many (Llama 4)
  /// Sizes as in DecoderConfig and RopeConfig; 0: as there.
  std::int64_t head_size = 0, kv_heads = 0, rope_size = 0, feed_forward = 0;
  std::int64_t shares = -1;      ///< the earlier layer whose keys and values it attends to; -1: its own (Gemma 3n)
  bool keys_are_values = false;  ///< values are the keys before their norm and rotation (Gemma 4)
  double sparsity = 0;           ///< share of the gate's elements that are 0, were they normal (Gemma 3n)
  MixerKind mixer = MixerKind::attention;
  bool has_feed_forward = true;

  bool has_attention() const { return mixer == MixerKind::attention || mixer == MixerKind::attention_and_mamba; }
  bool has_mamba() const { return mixer == MixerKind::mamba || mixer == MixerKind::attention_and_mamba; }
  bool has_state() const { return mixer != MixerKind::attention && mixer != MixerKind::none; }
};

/// Layers that keep a state of bounded size in place of keys and values: gated delta nets and Mamba-2, behind a short
/// convolution; or this convolution alone.
struct StateConfig {
  std::int64_t kernel = 0;     ///< positions that the convolution spans; 0: no layer keeps a state
  std::int64_t key_heads = 0;  ///< heads of keys (Mamba-2: groups of B and C); divides heads
  std::int64_t heads = 0;
  std::int64_t key_size = 0, value_size = 0;  ///< elements of a head, which keeps a matrix of both
  bool kernel_bias = false, input_bias = false, output_bias = false;
  /// Delta nets: head h of values has the keys of head h mod key_heads, else of h / (heads / key_heads).
  bool tiled = false;
  // Mamba-2
  bool norm = true;                            ///< of the result, with the gate
  bool norm_before_gate = false;               ///< else the gated result is normed
  std::int64_t norm_groups = 1;                ///< which are normed one by one
  double least_step = 0, largest_step = 1e30;  ///< of time
  double input_scale = 1, output_scale = 1;    ///< factors of Falcon-H1
  double part_scales[5] = {1, 1, 1, 1, 1};     ///< of the gate, x, B, C and the steps of time

  std::int64_t key_rows() const { return key_heads * key_size; }
  std::int64_t value_rows() const { return heads * value_size; }
};

/// How the scores of experts follow from the router's logits.
enum class RouterKind : std::uint8_t {
  softmax,
  sigmoid,
  sparsemixer  ///< two experts, each with its share of a softmax over those that come near to it (Phi-3.5-MoE)
};

/// Latent attention (DeepSeek-V2, 2024): keys and values of all heads are products of one short row of each position,
/// and all heads share the rotated elements of keys, the first of a head here.
struct LatentConfig {
  std::int64_t size = 0;        ///< elements of that row; 0: keys and values have projections of their own
  std::int64_t query_size = 0;  ///< the same of queries; 0: these have a projection of their own
  std::int64_t value_size = 0;  ///< elements of a head of values, at most DecoderConfig::head_size
};

/// A mixture of experts: each position passes a few of many feed-forward layers, which a router chooses.
struct ExpertConfig {
  std::int64_t count = 0;         ///< 0: there are none
  std::int64_t chosen = 0;        ///< experts of a position
  std::int64_t feed_forward = 0;  ///< width between the matrices of an expert
  std::int64_t shared = 0;        ///< the same of a layer beside them that all positions pass; 0: there is none
  /// Elements of the rows that experts read and give, to and from which a projection leads (Nemotron 3 Super, 2026);
  /// 0: those of the residual stream.
  std::int64_t latent = 0;
  RouterKind router = RouterKind::softmax;
  bool choice_bias = false;                    ///< added to scores for the choice, not to their factors
  bool groups_by_best = false;                 ///< groups are compared by the best expert, else by the best two
  std::int64_t groups = 1, chosen_groups = 1;  ///< experts are chosen from the best groups
  bool normalized = false;                     ///< factors are divided by their sum
  bool shared_gate = false;                    ///< the shared layer's result is multiplied by a score of the position
  double scale = 1;                            ///< of factors
  double jitter = 0;                           ///< sparsemixer: how far below the best a score still counts
  bool bias = false;                           ///< of the router and of each expert's matrices (gpt-oss)
  bool scales_input = false;                   ///< factors are of an expert's input, not of its result (Llama 4)
  /// They are added to a feed-forward layer of all positions, each behind a norm of its own (Gemma 4). The router reads
  /// the residual stream, normed without weights, and an expert has a factor of its own.
  bool beside_dense = false;
  double limit = 0;  ///< above 0: (up + 1) · gate · σ(1.702 · gate), gate at most this, up between it and -it (gpt-oss)
};

/// A factor of queries that grows with their position: 1 + scale · ln(1 + ⌊(position + offset) / floor⌋).
struct QueryTemperature {
  double scale = 0;        ///< 0: none
  std::int64_t floor = 1;  ///< positions
  std::int64_t offset = 0;
};

/// Inputs of each block besides the residual stream, by token and by the embedded token (Gemma 3n, 2025).
struct LayerInputConfig {
  std::int64_t size = 0;        ///< elements of a block's input; 0: there are none
  std::int64_t vocabulary = 0;  ///< rows of their table; tokens from here on have those of token 0
};

/// Several residual streams, of which blocks compute one and predict and correct the others (AltUp, Baykal et al.
/// 2023).
struct StreamConfig {
  std::int64_t count = 1;        ///< 1: there is one
  std::int64_t active = 0;       ///< the one that blocks compute
  bool scales_active = true;     ///< it is multiplied by weights where the block's own input joins
  double coefficient_limit = 0;  ///< of weights that mix streams, either sign; 0: none
};

/// The design of a decoder: sizes and what its blocks are made of.
struct DecoderConfig {
  std::string architecture = "llama";  ///< as GGUF names it
  std::string name;
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;  ///< positions it was trained with
  std::int64_t width = 0;    ///< of the residual stream
  std::int64_t layers = 0;
  std::int64_t next_layers = 0;  ///< behind them in the file, which predict further tokens (LoadOptions::mtp)
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;      ///< heads of keys and values; divides heads
  std::int64_t head_size = 0;     ///< elements a head
  std::int64_t feed_forward = 0;  ///< width between the matrices of the feed-forward layer

  NormKind norm = NormKind::rms;
  double norm_eps = 1e-5;
  bool query_key_norm = false;   ///< RMS norms of each head of queries and keys (Qwen 3, Gemma 3)
  bool norms_all_heads = false;  ///< these norms are of all heads together (OLMo 2)
  /// With norms_all_heads: instead they are layer norms of each head, which has weights of its own (StableLM 2 12B).
  bool layer_norms_heads = false;
  double qkv_limit = 0;     ///< above 0: queries, keys and values lie between it and -it, behind their norms (OLMoE)
  bool pre_norms = true;    ///< in front of attention and feed-forward
  bool post_norms = false;  ///< behind attention and feed-forward (Gemma 2 and 3)
  bool sub_norms = false;   ///< in front of the output and down projections (BitNet)
  bool parallel = false;    ///< attention and feed-forward read the block's input (Phi-2)
  bool parallel_norms = false;  ///< ... each through a norm of its own (GPT-NeoX); else through the same

  bool gated = true;                         ///< down(act(gate(x)) ⊙ up(x)), else down(act(up(x)))
  Activation activation = Activation::silu;  ///< of the feed-forward layer
  bool xielu = false;                        ///< xIELU instead, whose parameters are weights (Apertus); not gated
  bool query_bias = false;                   ///< of queries, keys and values; latent: of their short rows
  bool packed_qkv = false;                   ///< these are one projection (GPT-2); with learned positions only
  bool output_bias = false;                  ///< of attention's output
  bool ffn_bias = false;
  bool norm_bias = false;  ///< of layer norms
  bool head_bias = false;
  bool tied = false;               ///< the head is the token embedding
  bool ternary_scales = false;     ///< each matrix has a scale of its own in the file (BitNet)
  bool rounds_to_ternary = false;  ///< matrices of blocks are rounded to -s, 0 and s when they are loaded (BitNet)

  bool sinks = false;                 ///< attention has a sink for each head (gpt-oss)
  bool value_norm = false;            ///< RMS norms without weights, of each head of values (Gemma 3n)
  bool plain_query_key_norm = false;  ///< the same of queries and keys, in layers that rotate them (Llama 4)
  bool block_scales = false;          ///< the result of a block is multiplied by a number among its weights (Gemma 4)
  std::int64_t laurel_rank = 0;       ///< of a low-rank layer beside attention (LAuReL, Gemma 3n); 0: there is none

  ExpertConfig experts;
  LatentConfig latent;
  LayerInputConfig layer_inputs;
  StreamConfig streams;
  StateConfig state;
  /// Positions attend to later ones, too, and windows are of window / 2 positions on each side (EmbeddingGemma). Such a
  /// decoder writes no text.
  bool bidirectional = false;
  bool attention_gate = false;  ///< attention's result is multiplied by the sigmoid of a projection (Qwen3-Next)

  PositionKind positions = PositionKind::rotary;
  RopeConfig rope;
  double attention_scale = 0;    ///< of scores; 0: 1/√head_size
  double attention_softcap = 0;  ///< scores become c · tanh(scores / c) (Gemma 2); 0: not
  double logit_softcap = 0;
  double logit_scale = 1;                                        ///< of logits (Cohere, Granite)
  double residual_scale = 1;                                     ///< of what each sublayer adds to x (Granite)
  double embedding_scale = 1;                                    ///< of token embeddings (Gemma: √width)
  double attention_input_scale = 1, attention_output_scale = 1;  ///< of attention's input and result (Falcon-H1)
  double gate_scale = 1, down_scale = 1;  ///< of the feed-forward layer's gate and result (Falcon-H1)
  std::int64_t window = 0;                ///< a position attends to so many positions, itself included; 0: to all
  std::int64_t window_every = 1;  ///< layers 0 ... n-2 of each n have the window, the last sees all; 1: all have it
  double window_rope_base = 0;    ///< base of rope in layers with a window (Gemma 3), not scaled; 0: as the others
  QueryTemperature temperature;
  /// Of each layer; empty: all are rotated and scaled alike, and have the window as `window_every` says.
  std::vector<LayerConfig> each_layer = {};

  // ---- training; no file says it
  double dropout = 0;  ///< share of elements zeroed of the embeddings, and of what each sublayer adds to x
  /// Activation checkpointing: training keeps the input of each block only, and computes the rest again in backward.
  bool recompute_blocks = false;
  /// Fresh matrices that write to the residual stream are divided by √(2 · layers) (Radford et al. 2019).
  bool scaled_start = true;

  LayerConfig layer(std::int64_t index) const;
  /// The same design with the sizes of one layer as those of all, and without a description of each.
  DecoderConfig of_layer(std::int64_t index) const;
  /// Whether a later layer attends to this one's keys and values.
  bool is_shared(std::int64_t index) const;
  /// Whether a layer attends within the window only.
  bool has_window(std::int64_t index) const { return layer(index).window > 0; }
  std::int64_t query_rows() const { return heads * head_size; }
  std::int64_t kv_rows() const { return kv_heads * head_size; }
  /// Elements of the rows that experts read and give.
  std::int64_t expert_width() const { return experts.latent > 0 ? experts.latent : width; }
  /// Of attention's result.
  std::int64_t value_rows() const { return heads * (latent.size > 0 ? latent.value_size : head_size); }
  /// Whether some layer has attention, or keeps a state.
  bool has_attention() const;
  bool has_state() const;
  /// Channels of the convolution in front of a layer's state.
  std::int64_t state_channels(MixerKind mixer) const;
  double score_scale() const;
  /// Positions of the training before rope was scaled.
  std::int64_t original_context() const { return rope.original_context > 0 ? rope.original_context : context; }
  /// The divisors of rope's frequencies that this model uses; empty: all 1.
  const std::vector<float>& rope_divisors() const;
  /// What rotated queries and keys are multiplied by; 1 but for yarn and longrope.
  double rope_magnitude() const;
  /// The same in one layer.
  double rope_magnitude(std::int64_t layer) const { return has_window_rope(layer) ? 1 : rope_magnitude(); }
  bool has_window_rope(std::int64_t layer) const { return window_rope_base > 0 && has_window(layer); }
  /// Angle a position of each rotated pair, scaling included. @param layer decides about the base
  std::vector<float> rope_frequencies(std::int64_t layer) const;
  /// Number of weights, tied ones once.
  std::int64_t num_parameters() const;

  /// @throws FormatError naming the field that makes no model: sizes below 1, heads that do not divide ...
  void check() const;
};

/// Sizes and settings of a model that is to be trained, as in DecoderConfig.
struct DecoderOptions {
  std::int64_t vocabulary = 0, context = 0, width = 0, layers = 0, heads = 0, feed_forward = 0;
  double dropout = 0;
  bool recompute_blocks = false;
};
/// The design that the name of an architecture, as GGUF has it, stands for, in these sizes: with as many heads of keys
/// as of queries, and pairs of rope half a head apart.
/// @throws FormatError for an architecture that does not run here
DecoderConfig decoder_config(std::string_view architecture, const DecoderOptions& options);
/// From the metadata and the tensors of a GGUF file.
/// @throws FormatError naming the file, for an architecture that does not run here, and for values that make no model
DecoderConfig decoder_config(const io::GgufFile& file);
/// From a config.json of Hugging Face. @param name for errors @throws FormatError
DecoderConfig decoder_config(std::string_view json, const std::string& name);
DecoderConfig decoder_config(const io::Llama2cConfig& config);
/// A config as decoder_config() reads it, in the words of a config.json.
/// @throws Error for an architecture that is only read: all but llama and gpt2; and for what has no word there
std::string config_json(const DecoderConfig& config);

/// The architectures that run, as GGUF names them.
std::vector<std::string_view> known_architectures();

// ---- Decoders divided over the ranks of a group, for models that do not fit one device (tensor parallelism, Shoeybi
// et al. 2019). Each rank has some heads of attention with their keys and values, some columns of the feed-forward
// layer, and some rows of the embedding and the head. All ranks run the same steps on the same tokens; what they
// compute behind attention and feed-forward is summed over the group, and logits are gathered.

struct ModelSplit {
  int rank = 0, ranks = 1;
  /// Columns of attention's output and of the down projection that stay together: the size of the weights' blocks.
  std::int64_t block = 1;

  bool is_split() const { return ranks > 1; }
};

struct PartRange {
  std::int64_t begin = 0, size = 0;
  std::int64_t end() const { return begin + size; }
};

/// What a rank has. Parts are equal where sizes allow, and else differ by one unit that cannot be divided.
struct DecoderPart {
  PartRange heads, kv_heads;  ///< where there are fewer heads of keys than ranks, several ranks have the same one
  PartRange feed_forward;     ///< columns between its matrices
  PartRange vocabulary;       ///< rows of the embedding and the head
};

/// @throws FormatError for a model that cannot be divided so, naming the numbers of ranks that work
DecoderPart decoder_part(const DecoderConfig& config, const ModelSplit& split);
/// The sizes of a rank's blocks: its heads, and its columns of the feed-forward layer. Other fields are the model's.
/// @throws as decoder_part()
DecoderConfig part_config(const DecoderConfig& config, const ModelSplit& split);

}  // namespace etna::models
