#pragma once

#include <memory>

#include <etna/device/backend.h>

namespace etna::vulkan {

/// Every Vulkan adapter. Logical devices are made on first use.
std::unique_ptr<Backend> make_backend();

}  // namespace etna::vulkan
