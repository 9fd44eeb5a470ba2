#pragma once

#include <memory>
#include <string>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/data/tokenizers/vocabulary_fields.h>
#include <etna/device/file_path.h>
#include <etna/models/decoder.h>

namespace etna::io {
class GgufFile;
}

namespace etna::models {

struct LoadOptions {
  Device device = {};
  /// Matrices are decoded to f32 parameters. Else they stay as they lie in the file, and no parameter requires grad.
  bool trainable = false;
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

/// The vocabulary in a GGUF file's metadata. @throws FormatError if it has none, or one of another type
data::VocabularyFields vocabulary_of(const io::GgufFile& file);

}  // namespace etna::models
