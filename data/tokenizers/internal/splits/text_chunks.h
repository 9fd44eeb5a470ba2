#pragma once

#include <string_view>
#include <vector>

namespace etna::data {

/// Cuts a text into chunks of at least `least` bytes whose words are the words of the text: each starts with ASCII
/// white space that follows an ASCII character that is none. A text without such places is one chunk.
std::vector<std::string_view> text_chunks(std::string_view text, std::size_t least);

/// A size of chunk that keeps every core busy.
std::size_t chunk_size(std::size_t bytes);

}  // namespace etna::data
