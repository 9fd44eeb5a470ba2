#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/owned.h>
#include <etna/models/decoder_block.h>
#include <etna/models/model_file.h>
#include <etna/models/projection.h>
#include <etna/nn/containers.h>
#include <etna/nn/dropout.h>
#include <etna/nn/module.h>

namespace etna::data::transforms {
enum class ResampleFilter;
}

/// Text encoders, which read a text in both directions: BERT and what followed it. And vision towers, encoders of
/// pictures for decoders.
namespace etna::models {

/// How the vectors of a text's tokens become one: their mean, that of the first token, or that of the last one.
enum class Pooling : std::uint8_t { mean, cls, last };
/// "mean", "cls", "last".
const char* name(Pooling pooling);
/// @throws Error naming those that there are
Pooling pooling_named(std::string_view name);

/// What turns the vector of a text into scores (sequence classification).
struct ClassifierConfig {
  std::int64_t labels = 0;  ///< 0: the model has none
  Pooling pooling = Pooling::cls;
  std::optional<Activation> activation = {};  ///< behind the first matrix; unset: tanh
  bool bias = true;                           ///< of the first matrix
  bool norm = false;                          ///< behind the activation
};

/// The design of an encoder: sizes and what its blocks are made of.
struct EncoderConfig {
  std::string architecture = "bert";  ///< as Hugging Face names it ('model_type')
  std::string name;
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;          ///< tokens that a text may have
  std::int64_t width = 0;            ///< of the residual stream
  std::int64_t embedding_width = 0;  ///< of the token embeddings, which are projected to `width`; 0: as wide
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t head_size = 0;     ///< elements a head; 0: width / heads
  std::int64_t feed_forward = 0;  ///< width between the matrices of the feed-forward layer
  std::int64_t token_types = 0;   ///< kinds of tokens (first and second text of a pair); 0: no table of them

  double norm_eps = 1e-12;
  /// Norms in front of the sublayers, but for the first, and one behind the last block (ModernBERT). Else a norm behind
  /// each sum.
  bool pre_norm = false;
  bool first_norm = false;  ///< also in front of the first sublayer, where norms come first
  bool norm_bias = true;
  bool attention_bias = true;
  bool ffn_bias = true;
  bool gated = false;  ///< down(act(gate(x)) ⊙ up(x)), else down(act(up(x)))
  Activation activation = Activation::gelu;

  PositionKind positions = PositionKind::learned;
  std::int64_t position_offset = 0;   ///< rows of the table of positions before that of the first token (RoBERTa)
  std::int64_t rope_size = 0;         ///< elements of a head that are rotated; 0: all
  double rope_base = 10000;           ///< of layers that see the whole text
  double window_rope_base = 0;        ///< of layers with a window; 0: as the others
  std::int64_t window = 0;            ///< tokens on each side that layers with a window see
  std::vector<bool> windowed = {};    ///< whether each layer has the window; empty: none has
  std::int64_t relative_buckets = 0;  ///< of distances, each with a number added to scores for each head (MPNet)

  ClassifierConfig classifier;
  double dropout = 0;  ///< in training: of embeddings, and of what each sublayer adds to x

  bool has_window(std::int64_t layer) const { return !windowed.empty() && windowed[static_cast<std::size_t>(layer)]; }
  std::int64_t head_rows() const { return heads * head_size; }
  /// @throws FormatError naming the field that makes no model
  void check() const;
};

/// From a config.json of Hugging Face. @param name for errors
/// @throws FormatError for another kind of model, and for a design that does not run here
EncoderConfig encoder_config(std::string_view json, const std::string& name);
/// From the metadata and the tensors of a GGUF file. @throws FormatError
EncoderConfig encoder_config(const io::GgufFile& file);
/// The encoders that run, as Hugging Face names them.
std::vector<std::string_view> known_encoders();
/// Whether a file or a folder says that it is an encoder of a kind that runs here. Reads its config alone.
bool is_encoder(const FilePath& path);

/// Texts for an encoder.
struct EncoderInput {
  Tensor tokens;        ///< [B, T] i64 or i32
  Tensor lengths = {};  ///< [B, N] i32 or i64, of the texts in each row, in order; undefined: each row is one text
  Tensor types = {};    ///< [B, T], kinds of tokens; undefined: all 0
};

/// What the layers of an encoder share while they read: which tokens see each other.
struct EncoderSight {
  Tensor documents = {};  ///< as AttentionSettings::documents
  Tensor mask = {};    ///< of layers that see whole texts, where documents do not suffice: [B or 1, heads or 1, T, T]
  Tensor window = {};  ///< of layers with a window, bool; undefined: no text is longer
  Tensor cosines = {}, sines = {};  ///< [T, head_size / 2]: rotations of queries and keys; undefined: as positions say
};

/// A tensor that follows what it is used with to its device.
class ConstantTensor {
 public:
  ConstantTensor() = default;
  explicit ConstantTensor(const Tensor& values) : values_(values) {}
  const Tensor& on(Device device) const;
  bool defined() const { return values_.defined(); }

 private:
  mutable Tensor values_;
};

/// x + attention(x) and the feed-forward layer, with norms behind the sums or in front of the sublayers.
class EncoderBlock : public nn::Module {
 public:
  /// @param config which must outlive this
  EncoderBlock(Weights& weights, const std::string& name, const EncoderConfig& config, std::int64_t layer);
  /// @param x [B, T, width] @return the same
  Tensor forward(const Tensor& x, const EncoderSight& sight) const;

  Owned<Norm> attention_norm;  ///< null in the first block where norms come first but for that one
  Projection qkv;              ///< queries, keys and values, rows one below the other
  Projection output;           ///< of attention
  Norm ffn_norm;
  DecoderFeedForward ffn;
  nn::Dropout dropout;

 private:
  Tensor attend(const Tensor& x, const EncoderSight& sight) const;

  const EncoderConfig& config_;
  const bool windowed_;
  ConstantTensor frequencies_;
};

/// output(norm(act(dense(x)))), from the vector of a text to its scores.
class EncoderClassifier : public nn::UnaryModule {
 public:
  EncoderClassifier(Weights& weights, const std::string& name, const EncoderConfig& config);
  /// @param x [..., width] @return [..., labels]
  Tensor forward(const Tensor& x) const override;

  Projection dense;
  Owned<Norm> norm;
  Projection output;

 private:
  const std::optional<Activation> activation_;
};

/// A text encoder: embeddings, blocks, and perhaps a classifier.
///     models::EncoderModel model = models::load_encoder("all-MiniLM-L6-v2");
///     Tensor vectors = pool_texts(model.encoder->hidden({tokens, lengths}), lengths, model.pooling);
class Encoder : public nn::UnaryModule {
 public:
  Encoder(Encoder&&) = delete;
  Encoder& operator=(Encoder&&) = delete;
  /// @throws FormatError as EncoderConfig::check()
  Encoder(const EncoderConfig& config, Weights& weights);
  /// With FreshWeights, to be trained.
  explicit Encoder(const EncoderConfig& config);

  /// hidden() of rows that are one text each. @param tokens [B, T]
  Tensor forward(const Tensor& tokens) const override { return hidden({tokens}); }
  /// The vectors of all tokens; those behind the texts of a row mean nothing.
  /// @return [B, T, width] @throws ShapeError for a row of one text that is longer than the context
  Tensor hidden(const EncoderInput& input) const;
  /// The classifier's scores. @return [B, N, labels] @throws Error for a model without one
  Tensor classify(const EncoderInput& input) const;
  /// True if some matrix is in a block format, so that it cannot be trained.
  bool frozen() const { return token_embedding.frozen(); }

  const EncoderConfig config;
  Projection token_embedding;            ///< [vocabulary, embedding width]
  Owned<Projection> position_embedding;  ///< [context + position_offset, embedding width], or null
  Owned<Projection> type_embedding;      ///< [token types, embedding width], or null
  Norm embedding_norm;
  Owned<Projection> embedding_projection;  ///< null where embeddings are as wide as the rest
  Owned<Projection> relative_bias;         ///< [buckets, heads], or null
  nn::Dropout dropout;
  nn::ModuleList<EncoderBlock> blocks;
  Owned<Norm> norm;  ///< behind the last block, where norms come first
  Owned<EncoderClassifier> classifier;

 protected:
  std::unique_ptr<nn::Module> another() const override;

 private:
  Tensor embedded(const EncoderInput& input, const Tensor& bounds) const;
  EncoderSight sight(const EncoderInput& input, const Tensor& bounds) const;

  ConstantTensor buckets_;
};

/// The vectors of texts from those of their tokens.
/// @param hidden [B, T, W] @param lengths as EncoderInput::lengths, each at least 1
/// @return [B, N, W]; N is 1 without lengths. A length of 0 gives 0
Tensor pool_texts(const Tensor& hidden, const Tensor& lengths, Pooling pooling);

/// An encoder from files, ready to run.
struct EncoderModel {
  std::string source;  ///< "GGUF", "safetensors"
  std::unique_ptr<Encoder> encoder;
  std::shared_ptr<const data::Tokenizer> tokenizer;  ///< null where there is none beside the weights
};

/// Reads an encoder from a GGUF file or a folder of Hugging Face. Heads that are not a classifier are named in a
/// warning. @param options host_layers and split do not apply
/// @throws FormatError naming the file for what is missing, damaged, or does not run here
EncoderModel load_encoder(const FilePath& path, const LoadOptions& options = {});

/// Writes an encoder as a GGUF file, as llama.cpp names and orders things.
/// @param format, tokenizer as save_gguf_model() @param pooling what the file says of it
/// @throws FormatError for what a GGUF file cannot say
void save_gguf_encoder(const FilePath& path, const Encoder& encoder, const data::Tokenizer* tokenizer,
                       Pooling pooling = Pooling::mean, const quant::BlockFormat* format = nullptr);

/// A layer behind pooling, as sentence-transformers' Dense: activation(x · weightᵀ + bias).
struct DenseLayer {
  Tensor weight;                                            ///< [out, in] f32, on the CPU
  Tensor bias = {};                                         ///< [out], or undefined
  std::optional<Activation> activation = Activation::none;  ///< unset: tanh

  /// @param x [..., in] f32, on the CPU @return [..., out]
  Tensor operator()(const Tensor& x) const;
};

// ---- Vision towers, which make rows of a decoder's width from pictures.

/// How the vectors of patches become rows for a decoder.
enum class PatchMerge : std::uint8_t {
  average,  ///< the mean of a square of patches, normed, times a matrix (Gemma 3)
  shuffle,  ///< a square of patches side by side, times a matrix (Idefics 3, SmolVLM)
  layers    ///< the same of normed patches, through two matrices with an activation between them (Qwen3-VL)
};
/// How a picture becomes what a tower reads.
enum class PictureFit : std::uint8_t {
  square,  ///< scaled to a square
  tiles,   ///< scaled to squares beside and below each other, and then once more to a single one
  area     ///< scaled to whole squares of patches, to an area between two limits; about as it is within them
};

/// The design of a vision tower, how pictures become its input, and how a prompt holds its rows.
struct VisionConfig {
  std::string family = "gemma3";  ///< as Hugging Face names it ('model_type')
  EncoderConfig blocks;           ///< their sizes; norms come first
  std::int64_t image_size = 0;    ///< pixels of a square's side; of PictureFit::area: of the learned positions' one
  std::int64_t patch_size = 0;    ///< pixels of a patch's side
  std::int64_t merge = 1;         ///< patches of the side of a square that becomes one row
  std::int64_t decoder_width = 0;
  PatchMerge merges = PatchMerge::average;
  bool rotary = false;                      ///< queries and keys turn by line and column, besides learned positions
  std::vector<std::int64_t> deep_layers{};  ///< blocks behind which patches become ImageRows::deep, ascending

  PictureFit fit = PictureFit::square;
  data::transforms::ResampleFilter filter{};
  std::vector<double> mean{0.5, 0.5, 0.5}, deviation{0.5, 0.5, 0.5};  ///< of channels, from 0 to 1
  bool splits = true;                                                 ///< tiles: not only the single one
  std::int64_t longest_edge = 0;                                      ///< tiles: pixels, before it is cut
  std::int64_t least_pixels = 0, most_pixels = 0;                     ///< area
  /// Square: pan and scan also cuts it along its longer side, from such a ratio of sides on. 0 parts: never.
  std::int64_t pan_parts = 0, pan_pixels = 256;  ///< at most, and of each at least
  double pan_ratio = 1.2;

  bool both_ways = false;  ///< as PromptImages

  std::int64_t patches_per_side() const { return image_size / patch_size; }
  /// @throws FormatError naming the field that makes no tower
  void check() const;
};

/// From a config.json of Hugging Face and what is beside it. @param preprocessor the text of preprocessor_config.json;
/// empty: there is none @throws FormatError for another kind of model, and for a design that does not run here
VisionConfig vision_config(std::string_view json, std::string_view preprocessor, const std::string& name);
/// From the metadata of a GGUF file of llama.cpp's kind "mmproj". @throws FormatError
VisionConfig vision_config(const io::GgufFile& file);

/// Makes rows for a decoder from the vectors of patches.
class VisionProjector : public nn::Module {
 public:
  /// @param config must outlive this @param deep the norm is of a square of patches together
  VisionProjector(Weights& weights, const std::string& name, const VisionConfig& config, bool deep = false);
  /// @param x [B, lines · columns, width] @param lines of patches @return [B, rows, decoder width]
  Tensor forward(const Tensor& x, std::int64_t lines) const;

  Owned<Norm> norm;         ///< null where there is none
  Owned<Projection> first;  ///< null where there is one matrix
  Projection last;

 private:
  const VisionConfig& config_;
  const bool deep_;
};

/// The encoder of pictures: patches, blocks, and projectors to a decoder's width.
class VisionTower : public nn::Module {
 public:
  VisionTower(VisionTower&&) = delete;
  VisionTower& operator=(VisionTower&&) = delete;
  /// @throws FormatError as VisionConfig::check()
  VisionTower(const VisionConfig& config, Weights& weights);

  struct Output {
    Tensor rows;               ///< [B, N, decoder width]
    std::vector<Tensor> deep;  ///< the same, behind each of VisionConfig::deep_layers
  };
  /// @param patches [B, lines · columns, 3 · patch_size²], line after line: a patch's red, green and blue lines
  /// @param between called behind each block @throws ShapeError for lines and columns that are no whole squares
  Output forward(const Tensor& patches, std::int64_t lines, const std::function<void()>& between = {}) const;

  const VisionConfig config;
  Projection patch_embedding;
  Projection position_embedding;  ///< [patches_per_side², width]
  nn::ModuleList<EncoderBlock> blocks;
  Owned<Norm> norm;  ///< behind the last block, or null
  VisionProjector projector;
  nn::ModuleList<VisionProjector> deep;

 private:
  Tensor positions(std::int64_t lines, std::int64_t columns, Device device) const;
};

/// The tokens of a prompt with images, to be given to a generator together.
struct PicturePrompt {
  std::vector<std::int32_t> tokens;
  std::shared_ptr<const PromptImages> images;  ///< null where there are none
};

/// A part of a picture as a tower reads it.
struct PatchGrid {
  Tensor patches;  ///< [lines · columns, 3 · patch_size²] f32, on the CPU; undefined once they were read
  std::int64_t lines = 0, columns = 0;
};

/// A picture, cut and scaled for a tower, and its rows as far as VisionModel::read() has made them.
struct SeenPicture {
  std::vector<PatchGrid> grids;
  std::int64_t tile_lines = 0, tile_columns = 0;  ///< of PictureFit::tiles; 0: there is only the whole
  std::int64_t content = 0;                       ///< ImageRows::content of the first grid; others count on. 0: unknown
  std::vector<ImageRows> rows = {};               ///< of the first grids

  bool is_read() const { return rows.size() == grids.size(); }
};
using SeenPictures = std::span<const std::shared_ptr<SeenPicture>>;

/// A prompt whose pictures may not be read yet.
struct PicturePlaces {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> places;  ///< of each part of each picture, as PromptImages
};

/// A vision tower from files, which turns pictures and text into prompts.
///     auto vision = models::load_vision("gemma-3-4b-it");
///     auto prompt = vision->prompt(tokenizer, "What is this?", {data::read_image("cat.jpg", data::ImageMode::rgb)});
///     generator.generate(prompt.tokens, {.images = prompt.images}, print);
class VisionModel {
 public:
  VisionModel(const VisionConfig& config, Weights& weights, Device device);

  /// The text in whose place an image stands in a prompt: "<start_of_image>".
  std::string_view marker() const;
  /// The text behind markers for so many pictures, unless it has markers.
  std::string marked(std::string text, std::size_t pictures) const;
  /// @param parts with marker() in the places of images, all together as many as pictures
  /// @param pictures u8 [3, H, W]
  /// @throws Error for another number of markers, or a tokenizer without the tokens for images; ShapeError, DtypeError
  /// for other pictures
  PicturePrompt prompt(const data::Tokenizer& tokenizer, std::span<const data::TextPart> parts,
                       std::span<const Tensor> pictures, bool add_special = true) const;
  /// The same of marked() text, in which special tokens are ordinary text.
  PicturePrompt prompt(const data::Tokenizer& tokenizer, const std::string& text, std::span<const Tensor> pictures,
                       bool add_special = true) const;
  /// What a decoder reads in the place of a picture: of PictureFit::tiles, line after line, and last that of all of it.
  /// @param picture u8 [3, H, W] @throws ShapeError, DtypeError
  std::vector<ImageRows> rows(const Tensor& picture) const;

  /// The parts of prompt(). seen(), places() and row_count() do without the tower, and may run in several threads.
  SeenPicture seen(const Tensor& picture) const;
  std::int64_t row_count(const SeenPicture& picture) const;
  /// Computes the rows of a picture's next grid. @param between as VisionTower::forward() @return whether all are there
  bool read(SeenPicture& picture, const std::function<void()>& between = {}) const;
  /// @param marker in the place of marker() @throws as prompt()
  PicturePlaces places(const data::Tokenizer& tokenizer, std::span<const data::TextPart> parts, SeenPictures pictures,
                       std::string_view marker, bool add_special = true) const;
  /// Of pictures that are read; null for none.
  std::shared_ptr<const PromptImages> images(SeenPictures pictures, const std::vector<std::int64_t>& places) const;

  VisionTower tower;

 private:
  const Device device_;
};

/// Whether a file or a folder says that it has a vision tower of a kind that runs here. Reads its config alone.
bool has_vision(const FilePath& path);
/// Reads the vision tower of a folder of Hugging Face, or of a GGUF file of llama.cpp's kind "mmproj". @param options
/// only device and trainable apply
/// @throws FormatError naming the file for what is missing, damaged or does not run here; for a model that sees nothing
std::unique_ptr<VisionModel> load_vision(const FilePath& path, const LoadOptions& options = {});

/// How a model makes an embedding of a text.
struct EmbeddingSettings {
  Pooling pooling = Pooling::mean;
  std::vector<DenseLayer> dense;               ///< behind pooling, in order
  bool normalize = false;                      ///< to length 1, at the end
  std::string prefix;                          ///< in front of each text
  std::map<std::string, std::string> prompts;  ///< prefixes for some uses, by their names: "query"
  std::int64_t most_tokens = 0;                ///< of a text; 0: as many as the model reads
  bool stated = false;                         ///< the model's files say how it makes embeddings

  /// Makes one of the prompts the prefix. @throws FormatError naming those that there are
  void choose_prompt(const std::string& name);
};
/// As the files of sentence-transformers beside the model say (modules.json, 1_Pooling/config.json, 2_Dense,
/// config_sentence_transformers.json, sentence_bert_config.json), or a GGUF file's pooling_type and dense layers. Where
/// nothing is said, models that read in both directions take the mean, and others the last token.
/// @throws FormatError for damaged files, and for what does not run here: other steps, for example
EmbeddingSettings embedding_settings(const FilePath& path);

/// Embeddings of texts, by an encoder or by a decoder in one direction or both.
///     models::TextEmbedder embedder("all-MiniLM-L6-v2");
///     Tensor vectors = embedder.embed(texts).vectors;
class TextEmbedder {
 public:
  /// @param options as load_encoder(), and for a decoder as load_model() @throws FormatError as both, and for a model
  /// without a tokenizer, or with dense layers of other sizes
  explicit TextEmbedder(const FilePath& path, const LoadOptions& options = {});
  ~TextEmbedder();

  struct Result {
    Tensor vectors;                   ///< [texts, width] f32, on the CPU
    std::vector<std::size_t> cut;     ///< indices of texts whose ends were left out, since they are too long
    std::vector<std::size_t> tokens;  ///< of each text, before that
  };
  /// @throws FormatError for a text of no tokens
  Result embed(const std::vector<std::string>& texts) const;
  std::int64_t width() const;
  /// Tokens that a text may have.
  std::int64_t most_tokens() const;

  EmbeddingSettings settings;

 private:
  std::int64_t model_width() const;
  Tensor vectors_of(const EncoderInput& input) const;

  EncoderModel encoder_;  ///< its encoder is null where the model is a decoder
  Model decoder_;
  Device device_;
};

/// Says how well texts answer a query: by an encoder or a decoder with a classifier of one label (a cross-encoder), or
/// by a language model that says "yes" or "no" (Qwen3-Reranker).
class Reranker {
 public:
  /// @throws FormatError as load_encoder() and load_model(), and for a model without a tokenizer, with another
  /// classifier, or with none and no word for "yes", "no" and a chat's turns
  explicit Reranker(const FilePath& path, const LoadOptions& options = {});
  ~Reranker();

  struct Result {
    std::vector<double> scores;    ///< the classifier's, or the logit of "yes" less that of "no"; higher is better
    std::vector<std::size_t> cut;  ///< indices of texts that, with the query, were too long
  };
  /// @throws FormatError where the tokenizer does not say how pairs are written, or a query leaves no room for a text
  Result scores(const std::string& query, const std::vector<std::string>& texts) const;
  /// Tokens that a query and a text may have together.
  std::int64_t most_tokens() const;
  /// Whether the model is told what makes a text a good one: Qwen3-Reranker and its kin.
  bool takes_instruction() const { return asks_; }

  std::string instruction = "Given a web search query, retrieve relevant passages that answer the query";

 private:
  void load_decoder(const FilePath& path, const LoadOptions& options);
  data::TokenPair question(const std::string& query, const std::string& text, bool& cut) const;
  data::TokenPair pair(const std::string& query, const std::string& text, bool& cut) const;
  std::vector<double> scores_of(const EncoderInput& input) const;

  EncoderModel encoder_;  ///< its encoder is null where the model is a decoder
  Model decoder_;
  Tensor head_;                      ///< a decoder's classifier, [1, width] f32 on the CPU, or undefined
  std::int64_t yes_ = -1, no_ = -1;  ///< tokens whose logits are compared where there is none
  bool asks_ = false;                ///< in Qwen3-Reranker's words
  Device device_;
};

}  // namespace etna::models
