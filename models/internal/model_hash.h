#pragma once

#include <string>

#include <etna/models/decoder.h>

/// Which model it is. Internal.
namespace etna::models {

/// Hash of a decoder's configuration and of the bytes of all its weights, adapters included; 16 hexadecimal digits. It
/// reads all weights, from a GPU over the bus.
std::string model_hash(const Decoder& decoder);

}  // namespace etna::models
