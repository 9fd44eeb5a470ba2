#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace etna::data {

/// The bytes of a text in Base64 (RFC 4648), whose padding may be left out; nullopt for another text.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace etna::data
