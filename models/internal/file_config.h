#pragma once

#include <etna/device/file_path.h>
#include <etna/models/decoder_config.h>

namespace etna::models {

/// Of a folder of Hugging Face. @throws FormatError where it has no config.json, saying what to name instead
DecoderConfig folder_config(const FilePath& path);

/// The activation that a config.json names. @throws FormatError for one that is not known
Activation read_activation(std::string_view name);

/// @throws FormatError for a pipe, which would wait for its writer, and a device, which may never end
void require_plain_file(const FilePath& path);

}  // namespace etna::models
