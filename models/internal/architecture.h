#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <etna/models/decoder_config.h>

namespace etna::io {
class GgufWriter;
}  // namespace etna::io

namespace etna::models {

class GgufFields;

/// Matrices that llama.cpp and Hugging Face hold as one, rows behind each other.
enum class Packing : std::uint8_t {
  none,
  qkv,           ///< queries, keys and values
  qkv_and_gate,  ///< these, and the gate with the up projection
  gate           ///< the gate with the up projection
};

/// Which projections of attention the field 'attention_bias' of a config.json is for.
enum class AttentionBias : std::uint8_t { none, all, query_key_value };

/// Which layers rotate queries and keys.
enum class RotatedLayers : std::uint8_t {
  all,
  windowed,         ///< those with a window, if any has one
  not_every_fourth  ///< or what 'no_rope_layers' says
};

/// Which factors GGUF files of an architecture have.
enum class GgufFactors : std::uint8_t {
  none,
  logits,
  all  ///< of embeddings, logits and the residual stream
};

/// Layers; no model has more.
inline constexpr std::int64_t kMostLayers = 1 << 14;

/// What a decoder's part is called, and what a file calls it.
using PartNames = std::span<const std::pair<std::string_view, std::string_view>>;

/// What config.json of a family with mixtures of experts says, and what it leaves out.
struct ExpertRules {
  bool there = false;
  std::string_view width = "intermediate_size";  ///< key of an expert's width
  std::string_view chosen = "num_experts_per_tok";
  std::string_view shared = {};        ///< key of the number of shared experts; empty: there are none
  std::string_view shared_width = {};  ///< key of the width of one shared layer, in place of that number
  std::string_view norm = {};          ///< key of 'normalized'; empty: always
  bool normalized = false;             ///< where that key is missing
  bool scaled = false;                 ///< 'routed_scaling_factor', 'n_group' and 'topk_group' are read
  std::string_view dense_first = {};   ///< key of the number of layers without experts in front
  std::string_view last = {};          ///< key of the last layer with experts, -1: that of the model
  std::string_view every = {};         ///< key of n: layers n - 1, 2n - 1 ... of those have experts
  /// Files of Hugging Face have [experts, in, out], gate and up side by side; interleaved: by turns.
  bool in_by_out = false, interleaved = false;
};

/// What config.json of a family calls the sizes of layers that keep a state, and how it says which these are.
struct StateRules {
  MixerKind mixer = MixerKind::attention;  ///< of layers that keep one; attention: none does
  std::string_view kernel, heads = {}, key_heads = {}, value_size = {}, key_size = {};
  std::string_view kernel_bias = {}, input_bias = {}, output_bias = {};
  std::string_view activation = "hidden_act";  ///< key of that behind the convolution, which must be SiLU
  std::string_view attention_layers = {};      ///< key of the list of layers with attention
  std::int64_t interval = 0;                   ///< else each n-th layer has it, unless the file says another number
  bool single = false;                         ///< a block has a mixer or a feed-forward layer, and lists say which
  bool rotary = true;                          ///< queries and keys are rotated
  bool asks_for_rotary = false;                ///< only where 'position_embedding_type' is 'rope'
  bool least_step = false;                     ///< steps of time are at least 'time_step_min'
  bool norms_groups = false;                   ///< the gated result is normed by groups of heads
  bool optional_norm = false;                  ///< 'mamba_rms_norm', 'mamba_norm_before_gate'
  bool no_attention = false;                   ///< in any layer
  /// GGUF files have numbers for all layers, not one for each, and the distance of layers with attention.
  bool interval_in_gguf = false;
  bool tiled_in_gguf = false;  ///< StateConfig::tiled
  bool joins_rates = false;    ///< GGUF files have the projections of both rates in one tensor, by head of keys

  bool there() const { return mixer != MixerKind::attention; }
};

/// Rows of a part within a tensor of another name.
struct PackedRows {
  std::string name;  ///< of the tensor, without its kind
  std::int64_t begin = 0, rows = 0, all = 0;
};

/// All that is particular to one family of models. A family whose parts are there is one more row of the table in
/// architecture.cpp; nothing else asks for an architecture's name.
struct Architecture {
  std::string_view gguf;                       ///< `general.architecture` of a GGUF file
  std::string_view hugging_face;               ///< `model_type` of a config.json; empty: has none of its own
  bool only_hugging_face = false;              ///< GGUF files that call themselves so are neither read nor written
  std::string_view written_as = {};            ///< the name that a GGUF file of it gets instead
  std::string_view written_with_experts = {};  ///< the same of a model with experts
  /// What the name says about a design before its sizes are known.
  void (*apply)(DecoderConfig& config);

  // ---- tensors, in both kinds of files
  Packing packing = Packing::none;  ///< of GGUF files, and of adapters
  bool packs_qkv() const { return packing == Packing::qkv || packing == Packing::qkv_and_gate; }
  bool packs_gate() const { return packing == Packing::gate || packing == Packing::qkv_and_gate; }
  /// Rotary pairs are neighbours in GGUF files, and halves of a head apart in Hugging Face's.
  bool neighbours_in_gguf = false;
  bool neighbours_in_hugging_face = false;  ///< ... in both
  RotatedLayers rotated = RotatedLayers::all;
  bool latent = false;        ///< attention is latent (LatentConfig)
  PartNames gguf_names = {};  ///< other than llama's
  /// As packed_rows, in GGUF files.
  std::vector<PackedRows> (*packed_gguf)(const DecoderConfig& config, std::string_view part) = nullptr;
  bool folds_factors = false;       ///< GGUF files have factors of parts in the weights
  bool keys_in_all_layers = false;  ///< GGUF files have keys also in layers that attend to those of another

  // ---- tensors in files of Hugging Face
  PartNames names = {};                            ///< other than llama's
  std::string_view prefix = "model.";              ///< that adapters' names begin with
  std::string_view blocks = "layers";              ///< what the list of blocks is called
  std::span<const std::string_view> buffers = {};  ///< ends of names of tensors that are no weights
  bool in_by_out = false;                          ///< matrices of blocks are [in, out]
  bool qkv_by_head = false;                        ///< packed: a head's query, key and value, then the next head's
  /// Where files have a part's rows in tensors of other names, in order; null, or an empty list: they do not.
  std::vector<PackedRows> (*packed_rows)(const DecoderConfig& config, std::string_view part) = nullptr;
  double norm_offset = 0;         ///< added to the weights of norms
  bool asks_classifiers = false;  ///< a classifier of one label is asked as Qwen3-Reranker is
  int target_words = 1;           ///< of a module's name, that tell it from others in its block
  /// What names of a head for further tokens begin with; empty: it is one more block. Its block is "layers.0." there.
  std::string_view next_prefix = {};
  /// For its second guess, such a head reads its result behind its norm; else in front of it.
  bool next_reads_normed = false;

  // ---- config.json
  PartNames keys = {};  ///< llama's keys, and those that stand for them; "": it has none
  /// The architecture, as GGUF names it, where 'weight_bits' is 1, and where 'use_bidirectional_attention' is true.
  std::string_view of_one_bit = {}, in_both_directions = {};
  AttentionBias attention_bias = AttentionBias::none;
  bool window_is_asked_for = false;  ///< by 'use_sliding_window', from layer 'max_window_layers' on
  bool fixed_activation = false;     ///< whatever the file says
  bool is_written = false;           ///< config_json() can write it
  double rotary_part = 1;            ///< 'partial_rotary_factor' where it is missing
  // Sizes where they are missing; 0: they must be there, or follow from others.
  std::int64_t vocabulary = 0, heads = 0, kv_heads = 0, head_size = 0, context = 2048;
  double rope_base = 10000, query_scalar = 0;
  std::int64_t feed_forward_per_width = 0;

  // ---- metadata of GGUF files
  bool next_in_gguf = false;        ///< llama.cpp reads the head for further tokens
  bool sizes_by_layer = false;      ///< of keys' heads and feed-forward layers; read_gguf() reads them
  bool says_epsilon_twice = false;  ///< of norms of either kind, whichever there are
  /// Pairs of rope that do not turn are divisors of 1e30 in GGUF files, of layers without a window.
  bool divides_still_pairs = false;
  /// What only this family has, when all others are read.
  void (*read_gguf)(const GgufFields& fields, DecoderConfig& config) = nullptr;
  void (*set_gguf)(io::GgufWriter& to, const DecoderConfig& config) = nullptr;
  /// What differs from the design that the name stands for, as check_design() words it; null: nothing does.
  const char* (*differs_from_gguf)(const DecoderConfig& config) = nullptr;

  // ---- factors and positions
  bool divides_logits = false;  ///< files have the number that divides logits
  GgufFactors factors = GgufFactors::none;
  bool scales_queries = false;     ///< by their position (QueryTemperature)
  bool says_parallel = false;      ///< 'use_parallel_residual': whether blocks are parallel
  bool says_head_norms = false;    ///< 'qk_layernorm': DecoderConfig::layer_norms_heads
  bool plain_window_rope = false;  ///< rope of layers with a window is not scaled, and has the base of the others

  ExpertRules experts = {};
  /// Fields of config.json that only this family has, when all others are read.
  void (*read_json)(const nlohmann::json& json, DecoderConfig& config) = nullptr;
  StateRules states = {};

  // ---- scales that files do not say
  bool scales_embeddings = false;  ///< by √width
  /// Models of so many layers scale scores by 1/√(width / heads), whatever a head's size is.
  std::int64_t wide_scores_at_layers = 0;
};

/// The entries of families whose layers keep a state.
std::span<const Architecture> architectures_with_states();

/// The entry of a name in a file, or null.
const Architecture* find_architecture_gguf(std::string_view name);
const Architecture* find_architecture_hugging_face(std::string_view name);
/// As find_architecture_gguf(). @throws FormatError that lists those that run
const Architecture& require_architecture(std::string_view gguf);
/// The entry of a config; that of llama for a name that is not in the table.
const Architecture& architecture_of(const DecoderConfig& config);
/// A config by the name that a GGUF file of it has, and as the weights are there.
DecoderConfig gguf_config(const DecoderConfig& config);
/// "llama, qwen2, ...", as GGUF names them.
std::string architecture_names();
/// "llama, mistral, ...", as Hugging Face does.
std::string hugging_face_type_names();

/// What GGUF files call a decoder's part ("attention.query"), within its block.
std::string gguf_part(const Architecture& architecture, std::string_view part);
/// What files of Hugging Face call a decoder's part ("attention.query"), within its block.
std::string hugging_face_part(const Architecture& architecture, std::string_view part);

/// What follows from the sizes where a file is silent: Gemma's factor of embeddings, for one.
void fill_defaults(DecoderConfig& config);

/// Sets which layers have the window. @param windowed of each layer; of another length: by window_every
/// @return false for a list of another length
bool set_windows(DecoderConfig& config, const std::vector<bool>& windowed);
/// Sets which layers have experts. @param has of each layer
void set_expert_layers(DecoderConfig& config, const std::vector<bool>& has);
/// Sets which layers rotate queries and keys, when windows are known.
/// @param rotated of each layer; empty: as the architecture has it
void set_layers(DecoderConfig& config, const std::vector<bool>& rotated = {});

}  // namespace etna::models
