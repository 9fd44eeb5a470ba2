#include <etna/device/vulkan/graph/relocation.h>

#include <cstring>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/vulkan/graph/recording.h>

namespace etna::vulkan {
namespace {

std::uint64_t address_at(std::span<const std::byte> arguments, std::size_t at) {
  std::uint64_t address;
  std::memcpy(&address, arguments.data() + at, sizeof(address));
  return address;
}

}  // namespace

void relocate(std::span<std::byte> arguments, const Relocated& relocated) {
  for (std::size_t at = 0; at + 8 <= arguments.size(); at += 4) {
    const std::uint64_t address = address_at(arguments, at);
    if (!Recording::is_placeholder(address)) continue;
    const std::optional<std::uint64_t> real = relocated(address);
    const bool next_is_one = at + 12 <= arguments.size() && relocated(address_at(arguments, at + 4)).has_value();
    if (!real && next_is_one) continue;
    if (!real) {
      throw CaptureError(
          fmt::format("a kernel's arguments hold {:#x}, which no tensor of the captured step has", address));
    }
    if (next_is_one) throw CaptureError("a number beside an address looks like part of one; capture again");
    std::memcpy(arguments.data() + at, &*real, sizeof(*real));
    at += 4;
  }
}

}  // namespace etna::vulkan
