#pragma once

#include <memory>

#include <etna/device/internal/backend.h>

namespace etna::vulkan {

/// All Vulkan adapters. Logical devices are created on first use.
std::unique_ptr<Backend> make_backend();

}  // namespace etna::vulkan
