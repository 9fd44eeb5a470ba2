#pragma once

#include <string>
#include <vector>

#include <etna/models/decoder.h>

namespace etna::models {

/// The projections of a decoder's blocks that AdapterOptions::targets names, each once. Internal.
/// @throws Error for a name that none has, and for no names
std::vector<Projection*> adapter_targets(Decoder& decoder, const std::vector<std::string>& targets);

}  // namespace etna::models
