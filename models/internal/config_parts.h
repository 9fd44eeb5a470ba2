#pragma once

#include <cstdint>
#include <vector>

#include <etna/models/decoder_config.h>

/// What DecoderConfig says about parts that few decoders have. Internal.
namespace etna::models {

/// Number of weights of these parts, and of layers whose sizes differ, beside those of a model without them.
std::int64_t parameters_of_few(const DecoderConfig& config);
/// @throws FormatError as DecoderConfig::check()
void check_parts_of_few(const DecoderConfig& config);
/// The layers as they are so far. @throws FormatError for more than a model has
std::vector<LayerConfig> layers_of(const DecoderConfig& config);
/// Lets the last `count` layers attend to keys of the last one before them of their kind, with a window or without.
/// @throws FormatError where there is none
void share_keys(std::vector<LayerConfig>& layers, std::int64_t count);
/// @throws FormatError for a model with such parts that cannot be divided over ranks
void require_divisible(const DecoderConfig& config);

}  // namespace etna::models
