#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/error.h>
#include <etna/device/file_path.h>
#include <etna/models/decoder.h>

namespace etna {
struct CheckpointState;
namespace io {
class GgufFile;
}
}  // namespace etna

/// Models in files, and the adapters of models in files of their own.
namespace etna::models {

struct LoadOptions {
  Device device = {};
  /// Matrices are decoded to f32 parameters. Else they stay as they lie in the file, and no parameter requires grad.
  bool trainable = false;
  /// The first blocks, which stay on the CPU and run there, for a GPU too small for all of them (layer_plan.h).
  std::int64_t host_layers = 0;
  /// The matrices of experts stay on the CPU and run there, for a GPU too small for them.
  bool host_experts = false;
  /// The head is left out, for what reads hidden states only: logits mean nothing then. Not for llama2.c's files and
  /// checkpoints, which are read whole.
  bool headless = false;
  /// Read also the first layer behind the last, which predicts a further token, so that the model may guess by itself
  /// (GeneratorOptions::mtp). Not for training.
  bool mtp = false;
  /// The same for save_gguf_model(), where there is one that llama.cpp reads in GGUF files of the architecture.
  bool mtp_for_gguf = false;
  /// Which part of the model to read, where the ranks of a group generate with it together: each rank then holds about
  /// 1/ranks of the weights. Its `block` is set here. Not for training.
  ModelSplit split = {};
};

/// A model from files, ready to run.
struct Model {
  std::string source;  ///< "GGUF", "safetensors", "llama2.c", "checkpoint"
  std::unique_ptr<Decoder> decoder;
  std::shared_ptr<const data::Tokenizer> tokenizer;  ///< null where there is none beside the weights
};

/// Reads a GGUF file, a folder of Hugging Face (config.json, safetensors, tokenizer.json), llama2.c's legacy checkpoint
/// (its tokenizer.bin beside it), or a checkpoint whose metadata has a "config". On the CPU, and on a GPU that shares
/// its memory, weights stay in the mapped file.
/// @throws FormatError naming the file for what is missing, damaged, or does not run here
Model load_model(const FilePath& path, const LoadOptions& options = {});

/// A decoder with the weights of another. @param name for errors
/// @throws FormatError for weights that are missing or of other shapes
std::unique_ptr<Decoder> decoder_of(const DecoderConfig& config, const nn::StateDict& state,
                                    const LoadOptions& options = {}, const std::string& name = "the state");

/// A weight whose name in a file is not the decoder's.
struct RenamedWeight {
  std::string there, here;
};
/// The first weight that a checkpoint of a GPT-2 names as older versions did; nothing for one with the decoder's names.
/// load_model() and decoder_of() read both, but such a checkpoint's optimizer is of other parameters.
std::optional<RenamedWeight> renamed_weight(const CheckpointState& checkpoint);

/// The vocabulary in a GGUF file's metadata. @throws FormatError if it has none, or one of another type
data::VocabularyFields vocabulary_of(const io::GgufFile& file);

struct EmbeddingSettings;

/// Writes a decoder as a GGUF file, as llama.cpp names and orders things, with its head for further tokens where
/// llama.cpp reads one of the architecture.
/// @param format of matrices whose rows are whole blocks of it; null: as they are. Others become F16, vectors F32
/// @param tokenizer null: the file gets none @param embedding how it makes embeddings; null: the file does not say
/// @throws FormatError for what a GGUF file cannot say: a tokenizer whose rule for words has no name there
void save_gguf_model(const FilePath& path, const Decoder& decoder, const data::Tokenizer* tokenizer,
                     const quant::BlockFormat* format = nullptr, const EmbeddingSettings* embedding = nullptr);

/// A tokenizer as a vocabulary of a GGUF file; nothing for one whose rules have no name there.
std::optional<data::VocabularyFields> vocabulary_fields(const data::Tokenizer& tokenizer);

/// Writes the adapters of a decoder: as llama.cpp reads them where the path ends in ".gguf", else as PEFT does, in
/// safetensors with adapter_config.json beside them.
/// Files of gpt2 and phi3 have several layers in one matrix: their adapters become one, of the rank of all together
/// where they do not share A.
/// @throws FormatError if there are none, or if the file cannot be written
void save_adapters(const FilePath& path, const Decoder& decoder);

/// Adds the adapters of a GGUF file, a .safetensors file, or a folder that PEFT wrote. They may be trained on; all
/// other weights are frozen. Each layer of a packed matrix gets its own copy of A, and its rows of B.
/// @throws FormatError naming the file for adapters of other shapes or of layers that the decoder does not have, or if
/// it has adapters already; the decoder is unchanged then
void load_adapters(const FilePath& path, Decoder& decoder);

/// Stacks the adapters of such a file beside those stacked before, so that each sequence of a generator may choose one
/// (GenerationOptions::adapter). A row pays for the ranks of all of them. Call it before the generator is made.
/// @return the adapter's index, from 0 on @throws FormatError as load_adapters(), except that there may be others
std::int64_t stack_adapters(const FilePath& path, Decoder& decoder);

/// Weights of which some are NaN or infinite, or which make logits so, or all the same: no text of such a model means
/// anything.
struct SuspiciousWeights : Error {
  using Error::Error;
};

/// Reads two numbers from the device. @param logits [..., vocabulary] @param text where they stand, "the prompt"
/// @throws SuspiciousWeights if one is NaN or infinite, or if all of more than one are the same
void check_logits(const Tensor& logits, const char* text);

/// Reads all weights, as quant::find_suspicious(). @throws SuspiciousWeights naming the first tensor with a value or a
/// block's scale that is NaN or infinite
void check_weights(Decoder& decoder);

/// What a model's weights take, as its file says. Bytes, except for the configuration.
struct ModelSizes {
  DecoderConfig config;
  std::vector<std::uint64_t> layers;        ///< of each block
  std::uint64_t others = 0;                 ///< embeddings, the last norm, the head
  std::vector<std::uint64_t> experts = {};  ///< of each block: the experts' matrices among `layers`
  std::uint64_t total() const;
};

/// About what a rank has of a model that is divided over several: its blocks' sizes, and a share of the bytes.
/// @throws FormatError as decoder_part()
ModelSizes part_sizes(const ModelSizes& sizes, const ModelSplit& split);

/// Reads the headers of a model's files, and no weights. Those of a vision tower do not count.
/// @throws FormatError as load_model()
ModelSizes model_sizes(const FilePath& path);

/// About what the vision tower in such a file or folder takes on a device: its weights, and what it keeps at once of a
/// picture, the largest one that it takes or that gives a decoder so many rows. @throws FormatError as load_vision()
std::uint64_t vision_bytes(const FilePath& path, std::int64_t rows);

struct LayerPlanOptions {
  Device device = {};
  std::optional<std::int64_t> gpu_layers = std::nullopt;  ///< the last blocks on the GPU; nullopt: as many as fit
  bool host_experts = false;                              ///< LoadOptions::host_experts
  std::int64_t cache_tokens = 0;                          ///< positions of the cache; 0: the model's context
  DType cache = DType::f16;                               ///< u8 for Q8_0
  std::int64_t slots = 1;                                 ///< sequences at once
  std::int64_t guesses = 0;                               ///< tokens that are guessed in each step
  std::int64_t chunk = 2048;                              ///< tokens of a prompt read at once
  std::int64_t logits = 0;                                ///< rows of logits at once; 0: one a sequence
  std::uint64_t vision = 0;                               ///< bytes of a vision tower on the GPU: vision_bytes()
  std::uint64_t available = 0;                            ///< bytes; 0: available_memory(device)
};

/// Bytes are forecasts of what the device needs while it generates.
struct LayerPlan {
  Device device;
  std::int64_t layers = 0, gpu_layers = 0;
  std::uint64_t weights = 0, cache = 0, working = 0;  ///< on the GPU
  std::uint64_t available = 0;
  std::uint64_t all = 0;  ///< what the whole model would need

  std::int64_t host_layers() const { return layers - gpu_layers; }
  std::uint64_t needed() const { return weights + cache + working; }
  bool fits() const { return needed() <= available; }
  /// "22 of 32 layers on vulkan:0 (5.1 of 8.0 GiB), 10 on the CPU"
  std::string str() const;
};

/// On the CPU, all layers are there. On a GPU, gpu_layers above the model's are all of them. With none of them, the
/// embeddings and the head do not go to the GPU either.
/// @throws Error for negative gpu_layers
LayerPlan plan_layers(const ModelSizes& sizes, const LayerPlanOptions& options);

struct GptqOptions {
  const quant::BlockFormat* format = nullptr;  ///< Q4_0 or Q4_1; null: Q4_0
  double damping = 0.01;                       ///< added to the second moments' diagonal, times its mean
  /// Called before each block is rounded; false stops, and leaves the blocks that are not.
  std::function<bool(std::int64_t block)> progress = {};
};

/// Rounds the projections of a decoder's blocks to four bits, block after block, so that what they compute on texts
/// like the given ones changes least (GPTQ, Frantar et al. 2023): the columns behind make up for a column's rounding
/// error. Matrices whose rows are no whole blocks, the embedding and the head stay as they are.
/// @param decoder with dense weights, on the CPU @param texts tokens, of at most the context's length each
/// @throws Error for a frozen decoder, no text, another format; ShapeError for texts that are too long
void quantize_gptq(Decoder& decoder, std::span<const std::vector<std::int32_t>> texts, const GptqOptions& options = {});

/// The same for one matrix. @param weight [N, K] @param moments [K, K]: Σ xᵀx over inputs, f64
QuantizedTensor gptq(const Tensor& weight, const Tensor& moments, const quant::BlockFormat& format,
                     double damping = 0.01);

}  // namespace etna::models
