#pragma once

#include <cstdint>
#include <optional>

#include <etna/device/device.h>

namespace etna {

/// What an environment variable says about a device in bytes: "2GiB", "25%" of the device's memory, or several by
/// commas, each for a device, "vulkan:0=8GiB,cpu=1GiB". nullopt where it says nothing.
/// @param of_host whether a number without a device is also the CPU's
/// @throws Error naming the variable
std::optional<std::uint64_t> bytes_setting(const char* variable, Device device, bool of_host);

/// The device's memory in bytes, at most $ETNA_MEMORY_LIMIT; 0 where it is not known. The same in every run.
std::uint64_t memory_of(Device device);

}  // namespace etna
