#pragma once

#include <string>
#include <string_view>

#include <etna/models/encoder.h>
#include <etna/models/internal/architecture.h>

namespace etna::models {

/// All that is particular to one family of encoders. A family whose parts are there is one more row of the table in
/// encoder_family.cpp; nothing else asks for its name.
struct EncoderFamily {
  std::string_view hugging_face;  ///< `model_type` of a config.json
  std::string_view gguf;          ///< `general.architecture` of a GGUF file; empty: none that is known
  /// What the name says about a design before its sizes are known.
  void (*apply)(EncoderConfig& config);
  PartNames gguf_names = {};  ///< other than BERT's, in GGUF files

  // ---- tensors in files of Hugging Face
  PartNames names = {};          ///< other than BERT's
  std::string_view prefix = "";  ///< that names have in files of models with heads
  std::string_view blocks = "encoder.layer";

  // ---- config.json
  PartNames keys = {};               ///< BERT's keys, and those that stand for them where they are missing
  bool position_by_padding = false;  ///< the first position is the one behind `pad_token_id`
  // Sizes where they are missing; 0: they must be there.
  std::int64_t token_types = 0;
};

/// The entry of a name in a file, or null.
const EncoderFamily* find_encoder_hugging_face(std::string_view name);
const EncoderFamily* find_encoder_gguf(std::string_view name);
/// The entry of a config.
const EncoderFamily& family_of(const EncoderConfig& config);
/// @param name of an architecture, in either kind of file @throws FormatError where it is an encoder's
void refuse_encoder(std::string_view name);
/// "bert, roberta, ...", as Hugging Face names them.
std::string encoder_names();

/// What files of Hugging Face call an encoder's part ("ffn.up"), within its block.
std::string encoder_part(const EncoderFamily& family, std::string_view part);

}  // namespace etna::models
