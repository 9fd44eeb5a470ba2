#pragma once

#include <string_view>
#include <vector>

#include <etna/models/decoder_config.h>

namespace etna::models {

/// What the name of an architecture says about its models before their sizes are known.
struct Architecture {
  std::string_view gguf;          ///< `general.architecture` of a GGUF file
  std::string_view hugging_face;  ///< `model_type` of a config.json; empty: has none of its own
  void (*apply)(DecoderConfig& config);
};

/// The entry of a name in a file, or null.
const Architecture* find_architecture_gguf(std::string_view name);
const Architecture* find_architecture_hugging_face(std::string_view name);
/// "llama, qwen2, ..."
std::string architecture_names();

/// What follows from the sizes where a file is silent: Gemma's factor of embeddings, for one.
void fill_defaults(DecoderConfig& config);

/// Sets which layers have the window. @param windowed of each layer @return false for a list that window_every does not
/// describe, and for one of another length
bool set_windows(DecoderConfig& config, const std::vector<bool>& windowed);

}  // namespace etna::models
