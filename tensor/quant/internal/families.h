#pragma once

#include <cstddef>
#include <cstdint>

/// The decoders and encoders of all formats, for the table in block_format.cpp. Each takes a number of whole blocks.
namespace etna::quant {

using Decode = void(const std::byte* blocks, float* out, std::int64_t count);
using Encode = void(const float* values, const float* weights, std::byte* blocks, std::int64_t count);

Decode decode_f64, decode_f32, decode_f16, decode_bf16, decode_i8, decode_i16, decode_i32, decode_i64;
Encode encode_f32, encode_f16, encode_bf16;

Decode decode_q8_0, decode_q4_0, decode_q4_1, decode_q5_0, decode_q5_1;
Encode encode_q8_0, encode_q4_0, encode_q4_1, encode_q5_0, encode_q5_1;

Decode decode_q2_k, decode_q3_k, decode_q4_k, decode_q5_k, decode_q6_k;
Encode encode_q2_k, encode_q3_k, encode_q4_k, encode_q5_k, encode_q6_k;

Decode decode_iq4_nl, decode_iq4_xs, decode_mxfp4;
Encode encode_iq4_nl, encode_iq4_xs, encode_mxfp4;

Decode decode_tq1_0, decode_tq2_0, decode_i2_s;
Encode encode_tq1_0, encode_tq2_0, encode_i2_s;

/// The scale d for which codes -1, 0 and 1 times d are nearest to the values, in squared error; 0 if all are 0.
/// `weights` repeats after `period` elements.
float ternary_scale(const float* values, const float* weights, std::int64_t period, std::int64_t count);

}  // namespace etna::quant
