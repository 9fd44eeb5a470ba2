#pragma once

#include <string>
#include <string_view>

#include <etna/models/encoder.h>
#include <etna/models/internal/architecture.h>

/// All that is particular to a family of vision towers. Internal.
namespace etna::models {

/// The text around an image's rows in a prompt.
struct ImageText {
  std::string_view marker;         ///< what a prompt has in its place
  std::string_view before, after;  ///< `before` ends with a special token
  std::string_view token;          ///< in the places of its rows, where the tokenizer has it
};

struct VisionFamily {
  std::string_view hugging_face;  ///< `model_type` of a config.json
  std::string_view gguf;          ///< `clip.projector_type` of a GGUF file
  ImageText text;                 ///< of PictureFit::tiles: around all tiles
  /// What the name says about a design before its sizes are known, and sizes that files leave out.
  void (*apply)(VisionConfig& config);
  PartNames keys = {};   ///< keys of a vision_config other than SigLIP's
  PartNames names;       ///< of parts in files of Hugging Face
  PartNames gguf_names;  ///< of parts in GGUF files, other than SigLIP's
};

/// The entry of a name in a file, or null.
const VisionFamily* find_vision_hugging_face(std::string_view name);
const VisionFamily* find_vision_gguf(std::string_view name);
const VisionFamily& family_of(const VisionConfig& config);
/// "gemma3, ...", as Hugging Face names them.
std::string vision_names();

}  // namespace etna::models
