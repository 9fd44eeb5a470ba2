#pragma once

#include <functional>
#include <string>

#include <etna/models/encoder.h>
#include <etna/models/internal/weight_names.h>

/// The names of an encoder's weights in each kind of file.
namespace etna::models {

/// What comes before the names of an encoder's tensors in files of models with heads ("bert."); empty in others.
std::string encoder_prefix(const EncoderConfig& config, const HasTensor& has);
/// Each takes an encoder's name ("blocks.0.qkv.weight") to its places in the file.
/// @param config which must outlive the result
StoredWeights::Locate encoder_places(const EncoderConfig& config, const std::string& prefix, const HasTensor& has);
StoredWeights::Locate gguf_encoder_places(const EncoderConfig& config, const HasTensor& has);
UnusedTensor encoder_unused(const std::string& prefix, const std::string& name);

/// One matrix, or three below each other. @param place of a part that has a tensor of its own in the file
StoredPlaces encoder_qkv(const EncoderConfig& config, const HasTensor& has,
                         const std::function<StoredPlace(const std::string& part)>& place);

/// A GGUF file's name of an encoder's weight; queries, keys and values are "qkv", or "query", "key" and "value".
std::string gguf_encoder_name(const EncoderConfig& config, const std::string& name);

/// Dense layers behind pooling in GGUF files, in order.
inline constexpr const char* kGgufDense[] = {"dense_2.weight", "dense_3.weight"};

/// The number that GGUF files have for a pooling; kGgufRank is that of models with a classifier.
constexpr std::int64_t kGgufRank = 4;
constexpr std::int64_t gguf_pooling(Pooling pooling) {
  return pooling == Pooling::mean ? 1 : pooling == Pooling::cls ? 2 : 3;
}

}  // namespace etna::models
