#pragma once

#include <cstdint>

#include <etna/models/decoder_config.h>

/// What DecoderConfig says about parts that few decoders have. Internal.
namespace etna::models {

/// Number of weights of these parts, and of layers whose sizes differ, beside those of a model without them.
std::int64_t parameters_of_few(const DecoderConfig& config);
/// @throws FormatError as DecoderConfig::check()
void check_parts_of_few(const DecoderConfig& config);
/// @throws FormatError for a model with such parts that cannot be divided over ranks
void require_divisible(const DecoderConfig& config);

}  // namespace etna::models
