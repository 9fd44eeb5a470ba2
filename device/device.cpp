#include <etna/device/device.h>

#include <atomic>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna {

Device Device::parse(std::string_view text) {
  if (text == "cpu") return kCPU;
  constexpr std::string_view prefix = "vulkan";
  if (text.starts_with(prefix)) {
    std::string_view rest = text.substr(prefix.size());
    if (rest.empty()) return kVulkan;
    int index = -1;
    const char* end = rest.data() + rest.size();
    if (rest[0] == ':') {
      auto [at, error] = std::from_chars(rest.data() + 1, end, index);
      if (error == std::errc{} && at == end && index >= 0 && index < 64) return {DeviceType::vulkan, index};
    }
  }
  throw DeviceError(fmt::format("device '{}' is not a device's name; write cpu, vulkan or vulkan:N", text));
}

std::string Device::str() const { return is_cpu() ? "cpu" : fmt::format("vulkan:{}", index); }

namespace {
std::atomic<bool>& strict_flag() {
  static std::atomic<bool> flag = [] {
    const char* value = std::getenv("ETNA_STRICT");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return flag;
}
}  // namespace

bool strict() { return strict_flag().load(std::memory_order_relaxed); }
void set_strict(bool on) { strict_flag().store(on, std::memory_order_relaxed); }

}  // namespace etna
