#pragma once

#include <cstddef>
#include <cstdint>

/// What a fuzzer runs over bytes, one function for each reader of files. True if the bytes are a sound file; a refusal
/// is a FormatError, which the function catches. Anything else that is thrown, and every fault, is a defect.
namespace etna::fuzz {

bool gguf(const std::uint8_t* data, std::size_t size);
bool llama2c(const std::uint8_t* data, std::size_t size);
bool safetensors(const std::uint8_t* data, std::size_t size);
bool decoder_config(const std::uint8_t* data, std::size_t size);
/// A whole GGUF file as a decoder, written to a file first.
bool decoder_file(const std::uint8_t* data, std::size_t size);
bool shard_index(const std::uint8_t* data, std::size_t size);

}  // namespace etna::fuzz
