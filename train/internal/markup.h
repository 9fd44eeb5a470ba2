#pragma once

#include <string>
#include <string_view>

namespace etna::training {

/// Text for XML and HTML, inside elements and quoted attributes: & < > " ' become entities. Bytes that are not UTF-8
/// and characters that XML forbids become U+FFFD.
std::string escape_markup(std::string_view text);

std::string base64(std::string_view bytes);

}  // namespace etna::training
