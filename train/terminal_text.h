#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Text from files, arguments and models on its way to a terminal, where some bytes are commands.
namespace etna::training {

enum class Charset {
  utf8,
  ascii,  ///< every other character becomes an escape
};

/// What the locale asks for: $LC_ALL, else $LC_CTYPE, else $LANG. Without a word of UTF-8 there: ascii.
Charset terminal_charset();

/// The text with visible escapes in place of what could command a terminal or hide something: control characters
/// (\n, \t, \x1b, \u009b), marks that change the direction of writing (\u202e), other invisible characters, and bytes
/// that are not UTF-8 (\xff). More than eight combining marks on one character become escapes, too. A backslash stays
/// one.
std::string printable(std::string_view text, Charset charset = Charset::utf8);

/// The same of each line; its line breaks stay.
std::string printable_lines(std::string_view text);

/// Columns that printable text takes: East Asian wide characters and emoji 2, combining marks 0, others 1.
std::size_t columns(std::string_view text);

enum class Cut {
  end,    ///< "a long na…"
  begin,  ///< "…/runs/demo": the end of a path says most
};

/// The printable text in at most `width` columns; where something is left out stands "…" (ascii: "~").
std::string shortened(std::string_view text, std::size_t width, Cut cut = Cut::end, Charset charset = Charset::utf8);

/// shortened(), then spaces up to `width`: behind the text, or before it.
std::string padded(std::string_view text, std::size_t width, bool to_the_right = false, Cut cut = Cut::end,
                   Charset charset = Charset::utf8);

}  // namespace etna::training
