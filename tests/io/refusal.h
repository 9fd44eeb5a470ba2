#pragma once

#include <functional>
#include <string>

#include <etna/device/error.h>

namespace etna::io {

/// What a reader or a writer says when it refuses.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const FormatError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace etna::io
