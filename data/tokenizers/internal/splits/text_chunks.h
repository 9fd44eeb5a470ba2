#pragma once

#include <string_view>
#include <vector>

namespace etna::data {

/// Splits a text into chunks of at least `least` bytes without splitting words: each chunk starts with ASCII white
/// space that follows another ASCII character. A text without such places is one chunk.
std::vector<std::string_view> text_chunks(std::string_view text, std::size_t least);

/// A chunk size that keeps every core busy.
std::size_t chunk_size(std::size_t bytes);

}  // namespace etna::data
