#pragma once

#include <string>

#include <etna/models/encoder.h>
#include <etna/models/internal/weight_names.h>

/// The names of a vision tower's weights in each kind of file. Internal.
namespace etna::models {

/// Each takes a tower's name ("blocks.0.qkv.weight") to its places in the file.
/// @param config which must outlive the result
StoredWeights::Locate vision_places(const VisionConfig& config, const HasTensor& has);
StoredWeights::Locate gguf_vision_places(const VisionConfig& config, const HasTensor& has);

/// Finds tensors as the tower has them: kernels of patches as matrices, those of several frames added up, as each frame
/// is the same picture; and norms with what their difference from 1 is in files of Gemma.
StoredWeights::Find with_patch_matrices(std::string file, StoredWeights::Find find);

/// Whether a tensor in a folder of Hugging Face is of a vision tower or its projector.
bool is_of_vision(const std::string& name);

}  // namespace etna::models
