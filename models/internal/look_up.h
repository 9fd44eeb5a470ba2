#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace etna::models {

/// Guesses how a text goes on: as it did after the last place that reads like its end (three tokens, else two). Empty
/// where there is none.
/// @param count tokens at most
std::vector<std::int32_t> look_up(std::span<const std::int32_t> tokens, std::int64_t count);

}  // namespace etna::models
