#include <etna/device/device.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <ostream>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/backend.h>

namespace etna {

namespace {

constexpr int kMostDevices = 64;  ///< of one kind

}  // namespace

Device Device::parse(std::string_view text) {
  if (text == "cpu") return kCPU;
  std::string known = "cpu";
  for (std::size_t type = 1; type < backends().size(); ++type)
    known += fmt::format(", {0} or {0}:N", backends()[type]->name());
  for (std::size_t type = 1; type < backends().size(); ++type) {
    const std::string_view name = backends()[type]->name();
    if (!text.starts_with(name)) continue;
    const std::string_view rest = text.substr(name.size());
    if (rest.empty()) return {static_cast<DeviceType>(type), 0};
    if (rest[0] != ':') continue;
    int index = -1;
    const char* end = rest.data() + rest.size();
    auto [at, error] = std::from_chars(rest.data() + 1, end, index);
    if (error != std::errc{} || at != end) continue;
    if (index >= 0 && index < kMostDevices) return {static_cast<DeviceType>(type), index};
    throw DeviceError(fmt::format("device '{}' has a number outside 0 to {}; write {}", text, kMostDevices - 1, known));
  }
  throw DeviceError(fmt::format("device '{}' is not a device's name; write {}", text, known));
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << device.str(); }

std::string Device::str() const { return is_cpu() ? "cpu" : fmt::format("{}:{}", backend(type).name(), index); }

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
