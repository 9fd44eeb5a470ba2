#pragma once

#include <chrono>

namespace etna::os {

/// Seconds of a clock that never goes back.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace etna::os
