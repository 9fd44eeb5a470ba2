#pragma once

#include <string_view>

#include <etna/device/device.h>

namespace etna {

/// Chooses a device for work that must run where the user thinks it does: turns strict mode on, and takes a software
/// rasterizer only where it was named with its number ("vulkan:1"), not by the name of its kind ("vulkan").
/// @throws DeviceError as select_device()
Device select_device_strictly(std::string_view requested = {});

}  // namespace etna
