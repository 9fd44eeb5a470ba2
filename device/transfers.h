#pragma once

#include <cstdint>
#include <string_view>

namespace etna {

/// Copies between host and devices since the start or reset_transfers(), summed over devices.
struct Transfers {
  std::uint64_t h2d_bytes = 0, h2d_calls = 0;
  std::uint64_t d2h_bytes = 0, d2h_calls = 0;
  std::uint64_t moved_tensors = 0;  ///< host tensors an op moved to a GPU because another input was there
  std::uint64_t fallbacks = 0;      ///< ops that ran composed, or on the CPU, because they had no kernel
};

Transfers transfers();
void reset_transfers();

namespace detail {
void count_h2d(std::uint64_t bytes);
void count_d2h(std::uint64_t bytes);
/// Counts the event and warns once per message. In strict mode throws DeviceError instead.
void count_moved_tensor(std::string_view op, std::string_view what);
void count_fallback(std::string_view op, std::string_view why);
}  // namespace detail

}  // namespace etna
