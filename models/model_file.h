#pragma once

#include <memory>
#include <optional>
#include <string>

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

/// Writes a decoder as a GGUF file, as llama.cpp names and orders things.
/// @param format of matrices whose rows are whole blocks of it; null: as they are. Others become F16, vectors F32
/// @param tokenizer null: the file gets none
/// @throws FormatError for what a GGUF file cannot say: a tokenizer whose rule for words has no name there
void save_gguf_model(const FilePath& path, const Decoder& decoder, const data::Tokenizer* tokenizer,
                     const quant::BlockFormat* format = nullptr);

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

}  // namespace etna::models
