#pragma once

#include <etna/device/file_path.h>
#include <etna/models/decoder.h>

/// Low-rank adapters in files of their own, apart from the model that they belong to.
namespace etna::models {

/// Writes the adapters of a decoder: as llama.cpp reads them where the path ends in ".gguf", else as PEFT does, in
/// safetensors with adapter_config.json beside them.
/// Files of gpt2 and phi3 have several layers in one matrix: their adapters become one, of the rank of all together
/// where they do not share A.
/// @throws FormatError if there are none, or if the file cannot be written
void save_adapters(const FilePath& path, const Decoder& decoder);

/// Adds the adapters of a GGUF file, a .safetensors file, or a folder that PEFT wrote. They may be trained on; all
/// other weights are frozen. Each layer of a packed matrix gets its own copy of A, and its rows of B.
/// @throws FormatError naming the file for adapters of other shapes or of layers that the decoder does not have, or if
/// it has adapters already; the decoder is unchanged then
void load_adapters(const FilePath& path, Decoder& decoder);

}  // namespace etna::models
