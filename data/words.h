#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/vocabulary.h>

/// Words as Python sees them: str.split() within a line, lines as a text file opened with universal newlines gives
/// them.
namespace etna::data {

/// Bytes of the white-space character that starts at text[at], 0 where none starts there. Text is UTF-8. White space is
/// what Unicode gives the bidirectional type WS, B or S, or the category Zs: 29 characters.
std::size_t white_space_at(std::string_view text, std::size_t at);

/// True for a non-empty text without white space.
bool is_word(std::string_view text);

/// Appends the id of every word and, behind each line, of `<eos>`; unknown words are added to the vocabulary. Lines end
/// in
/// "\n", "\r\n", "\r" or with the text.
void append_lines(std::string_view text, Vocabulary& vocab, std::vector<std::int32_t>& ids);

/// Ids of the words of a prompt, without `<eos>` at its end (a line break within it gives one); unknown words become
/// `<unk>`.
/// @throws FormatError for an unknown word where the vocabulary has no `<unk>`.
std::vector<std::int32_t> encode(std::string_view text, const Vocabulary& vocab);

/// Readable text: `<eos>` breaks the line, ` @-@ ` becomes `-` (so too `@,@` and `@.@`), punctuation joins its word.
/// @throws FormatError for an id outside the vocabulary.
std::string decode(std::span<const std::int32_t> ids, const Vocabulary& vocab);

}  // namespace etna::data
