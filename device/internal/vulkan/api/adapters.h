#pragma once

#include <string>
#include <vector>

#include <etna/device/device.h>

namespace etna::vulkan {

/// Vulkan's rows of etna::adapters(), best kind first, usable or not. Empty where there is no loader or no driver.
const std::vector<AdapterInfo>& adapters();

/// Why adapters() is empty: "no Vulkan loader (libvulkan.so.1) was found". Empty if it is not.
const std::string& why_no_adapters();

}  // namespace etna::vulkan
