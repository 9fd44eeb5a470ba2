#pragma once

#include <string>

#include <etna/tensor/io/safetensors.h>

namespace etna {

/// Hash (XXH3, 64 bits, as 16 hexadecimal digits) of names, dtypes, shapes, bytes and metadata. It finds damage; it is
/// no protection against a forger.
/// @param tensors contiguous, on the CPU, in any order
std::string content_hash(const NamedTensors& tensors, const Metadata& metadata);

}  // namespace etna
