#pragma once

#include <string>

#include <etna/tensor/io/safetensors.h>

namespace etna {

/// Hash (64-bit XXH3, as 16 hexadecimal digits) of names, dtypes, shapes, bytes and metadata. It detects damage; it
/// does not protect against forgery.
/// @param tensors contiguous, on the CPU, in any order
std::string content_hash(const NamedTensors& tensors, const Metadata& metadata);

}  // namespace etna
