#include <etna/device/memory.h>

#include <mutex>
#include <set>
#include <string>

#include <fmt/format.h>

#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/device/internal/log.h>

namespace etna {
namespace {

std::mutex mutex;
Transfers counted;

void warn_once(const std::string& message) {
  static std::set<std::string> said;
  std::lock_guard lock(mutex);
  if (said.insert(message).second) log().warn("{}", message);
}

}  // namespace

Transfers transfers() {
  std::lock_guard lock(mutex);
  return counted;
}

void reset_transfers() {
  std::lock_guard lock(mutex);
  counted = {};
}

namespace detail {

void count_h2d(std::uint64_t bytes) {
  std::lock_guard lock(mutex);
  counted.h2d_bytes += bytes;
  ++counted.h2d_calls;
}

void count_d2h(std::uint64_t bytes) {
  std::lock_guard lock(mutex);
  counted.d2h_bytes += bytes;
  ++counted.d2h_calls;
}

void count_moved_tensor(std::string_view op, std::string_view what) {
  if (strict()) {
    throw DeviceError(fmt::format("{}: {} and ETNA_STRICT=1 forbids moving it; call .to(device) yourself", op, what));
  }
  {
    std::lock_guard lock(mutex);
    ++counted.moved_tensors;
  }
  warn_once(fmt::format("{}: {}; it is moved at every call, .to(device) once would be faster", op, what));
}

void count_fallback(std::string_view op, std::string_view why) {
  if (strict()) throw DeviceError(fmt::format("{}: {} and ETNA_STRICT=1 forbids falling back", op, why));
  {
    std::lock_guard lock(mutex);
    ++counted.fallbacks;
  }
  warn_once(fmt::format("{}: {}; it falls back, which is slow", op, why));
}

}  // namespace detail
}  // namespace etna
