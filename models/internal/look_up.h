#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace etna::models {

/// Prompt lookup: guesses the tokens that followed the last earlier occurrence of the text's final three (else two)
/// tokens. Empty if there is none.
/// @param count the most tokens to guess
std::vector<std::int32_t> look_up(std::span<const std::int32_t> tokens, std::int64_t count);

}  // namespace etna::models
