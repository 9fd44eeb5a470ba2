#pragma once

#include <cstdint>

#include <etna/models/decoder_config.h>

/// Layers with a state in a DecoderConfig. Internal.
namespace etna::models {

/// Weights of a layer's mixer, without attention.
std::int64_t state_parameters(const DecoderConfig& config, MixerKind mixer);
/// Whether some layer has a feed-forward layer that is no mixture.
bool has_dense_layer(const DecoderConfig& config);
/// @throws FormatError naming the size that makes no layer
void check_states(const DecoderConfig& config);

}  // namespace etna::models
