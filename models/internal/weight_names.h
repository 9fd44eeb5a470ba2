#pragma once

#include <functional>
#include <optional>
#include <string>

#include <etna/models/decoder_config.h>
#include <etna/models/internal/stored_weights.h>
#include <etna/models/model_file.h>

/// The names of a decoder's weights in each kind of file.
namespace etna::models {

/// A model's name of a weight in parts: "blocks.3.ffn.up.weight" is block 3, "ffn.up", ".weight".
struct Parts {
  std::string block;  ///< empty outside of blocks
  std::string part;
  std::string kind;  ///< ".weight", ".bias" or another end; empty where the name has one part
};
Parts parts_of(const std::string& name);

/// Whether a file has a tensor with this name.
using HasTensor = std::function<bool(const std::string& name)>;

/// Each takes a decoder's name ("blocks.0.attention.query.weight") to its places in the file. Queries, keys and values
/// may be one tensor there or three, whatever they are in the decoder.
StoredWeights::Locate gguf_places(const DecoderConfig& config, const HasTensor& has);
/// @param prefix of the names of the decoder's tensors
StoredWeights::Locate hugging_face_places(const DecoderConfig& config, const std::string& prefix, const HasTensor& has);
std::string hugging_face_prefix(const DecoderConfig& config, const HasTensor& has);
/// DecoderConfig::next_layers of a folder of Hugging Face, whose config.json may not say it.
std::int64_t next_layers_in(const DecoderConfig& config, const HasTensor& has);
StoredWeights::Locate llama2c_places();
/// Of a checkpoint: the decoder's own names, or those that GPT-2 had in older ones ("blocks.0.qkv.weight").
StoredWeights::Locate checkpoint_places(const DecoderConfig& config, const HasTensor& has);

/// The first weight to which an older version's checkpoint of GPT-2 gave another name; nothing for other checkpoints.
std::optional<RenamedWeight> renamed_weight(const HasTensor& has);

/// The classifier of a decoder, [labels, width], in folders of Hugging Face and in GGUF files.
inline constexpr const char* kScoreHead = "score.weight";
inline constexpr const char* kGgufScoreHead = "cls.output.weight";

/// What an unread tensor of a file is.
enum class UnusedTensor {
  known,  ///< known, and not needed by the model
  part,   ///< a part of the model, contrary to the file's sizes
  other   ///< a part of something else in the file, such as a vision tower
};
UnusedTensor gguf_unused(const DecoderConfig& config, const std::string& name);
UnusedTensor hugging_face_unused(const DecoderConfig& config, const HasTensor& has, const std::string& name);

/// A GGUF file's name of a decoder's weight.
std::string gguf_name(const DecoderConfig& config, const std::string& name);

}  // namespace etna::models
