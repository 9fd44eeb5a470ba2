#include <etna/device/memory_control.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/device_queue.h>
#include <etna/device/internal/memory_settings.h>

namespace etna {
namespace {

/// What a unit of bytes multiplies by; 0 for a word that is none.
double unit_of_bytes(std::string_view word) {
  std::string lower(word);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower.empty() || lower == "b") return 1;
  const std::size_t power = std::string_view("kmgt").find(lower[0]);
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = std::string_view(lower).substr(1);
  if (rest.empty() || rest == "ib") return std::pow(1024.0, static_cast<double>(power + 1));
  return rest == "b" ? std::pow(1000.0, static_cast<double>(power + 1)) : 0;
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text, std::uint64_t whole) {
  constexpr double kMost = 4611686018427387904.0;  // 2^62
  const std::string_view trimmed = without_blanks(text);
  double number = -1;
  const char* end = trimmed.data() + trimmed.size();
  const auto [at, error] = std::from_chars(trimmed.data(), end, number, std::chars_format::fixed);
  const std::string_view word = without_blanks({at, static_cast<std::size_t>(end - at)});
  const bool is_number = error == std::errc{} && std::isfinite(number) && number >= 0;
  if (is_number && word == "%" && whole > 0 && number <= 100)
    return static_cast<std::uint64_t>(number / 100 * static_cast<double>(whole));
  const double unit = unit_of_bytes(word);
  if (is_number && unit > 0 && number * unit <= kMost) return static_cast<std::uint64_t>(number * unit);
  throw Error(fmt::format("'{:.60}' is not a number of bytes; write 1500, 512MiB{}", text,
                          whole > 0 ? ", 1.5GiB or 25%" : " or 1.5GiB"));
}

std::optional<std::uint64_t> bytes_setting(const char* variable, Device device, bool of_host) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == 0) return std::nullopt;
  std::optional<std::uint64_t> found;
  try {
    const auto& all = backend(device).adapters();
    const std::uint64_t whole = device.index < all.size() ? all[device.index].memory_bytes : 0;
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view one = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      const std::size_t equals = one.find('=');
      if (equals == std::string_view::npos) {
        const std::uint64_t bytes = parse_bytes(one, whole);
        if (!found && (of_host || !device.is_cpu())) found = bytes;
        continue;
      }
      const bool meant = Device::parse(without_blanks(one.substr(0, equals))) == device;
      const std::uint64_t bytes = parse_bytes(one.substr(equals + 1), std::max(whole, std::uint64_t{1}));
      if (meant) found = bytes;
    }
  } catch (const Error& error) {
    throw Error(fmt::format("{} is '{:.100}': {}", variable, text, error.what()));
  }
  return found;
}

std::uint64_t memory_of(Device device) {
  const auto& all = backend(device).adapters();
  const std::uint64_t whole = device.index < all.size() ? all[device.index].memory_bytes : 0;
  return std::min(whole, bytes_setting("ETNA_MEMORY_LIMIT", device, true).value_or(whole));
}

void set_cache_limit(Device device, std::uint64_t bytes) { DeviceQueue(device).allocator().set_cache_limit(bytes); }
std::uint64_t cache_limit(Device device) { return DeviceQueue(device).allocator().cache_limit(); }
std::uint64_t trim_memory(Device device) { return DeviceQueue(device).allocator().empty_cache(); }
void reserve_memory(Device device, std::uint64_t bytes) { DeviceQueue(device).allocator().reserve(bytes); }
std::uint64_t reserved_memory(Device device) { return DeviceQueue(device).allocator().reserved(); }

std::uint64_t trim_when_idle(double seconds) {
  static_cast<void>(DeviceQueue(kCPU));  // runs the calls held back
  return CachingAllocator::trim_when_idle(seconds);
}

}  // namespace etna
