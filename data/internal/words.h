#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/corpus.h>

/// Splits text into words as Python does: str.split() within a line, lines as in a text file opened with universal
/// newlines.
namespace etna::data {

/// Bytes of the white-space character that starts at text[at]; 0 if none starts there. Text is UTF-8. White space is
/// what Unicode gives the bidirectional type WS, B or S, or the category Zs: 29 characters.
std::size_t white_space_at(std::string_view text, std::size_t at);

/// True for a non-empty text without white space.
bool is_word(std::string_view text);

/// Appends the id of every word and, after each line, of `<eos>`; adds unknown words to the vocabulary. A line ends
/// with "\n", "\r\n", "\r" or the end of the text.
void append_lines(std::string_view text, Vocabulary& vocab, std::vector<std::int32_t>& ids);

/// Calls token(text, line_end) for every word and, with `<eos>` and true, for every line break within the text.
void for_each_token(std::string_view text, const std::function<void(std::string_view, bool)>& token);

/// Appends a word to a text that decode() gives.
/// @param join true at the start of a line, where no word needs a space before it
/// @param quoted whether a quotation is open
void decode_word(std::string_view word, bool& join, bool& quoted, std::string& text);

}  // namespace etna::data
