#pragma once

#include <cstddef>
#include <span>

#include <etna/dist/dist.h>

namespace etna::distributed {

/// out[i] = the reduction of parts[0][i], parts[1][i], ... in this order; f16 and bf16 in f32, rounded once.
/// @param out may be one of the parts
void reduce_parts(Reduce reduce, DType dtype, std::span<const std::byte* const> parts, std::byte* out,
                  std::int64_t count);

}  // namespace etna::distributed
