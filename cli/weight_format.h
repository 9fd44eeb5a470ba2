#pragma once

#include <string>

#include <etna/tensor/quant/block_format.h>

namespace etna::cli {

/// The format that a file gets for --to: by its own name, or by that of llama.cpp's mixes of it (Q4_K_M is Q4_K, whose
/// outer matrices keep 6 bits anyway). Null for a name that is none, or a format that cannot be written to GGUF.
const quant::BlockFormat* writable_format(const std::string& name);

/// "--to is 'q9'; it should be one of F32, F16, ...".
std::string unknown_format(const std::string& name);

}  // namespace etna::cli
