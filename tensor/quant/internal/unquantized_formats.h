#pragma once

#include <cstddef>
#include <cstdint>

/// Unquantized formats, with one element per block: floats and integers. Internal.
namespace etna::quant {

using Decode = void(const std::byte* blocks, float* out, std::int64_t count);
using Encode = void(const float* values, const float* weights, std::byte* blocks, std::int64_t count);

Decode decode_f64, decode_f32, decode_f16, decode_bf16, decode_i8, decode_i16, decode_i32, decode_i64;
Encode encode_f32, encode_f16, encode_bf16;

}  // namespace etna::quant
