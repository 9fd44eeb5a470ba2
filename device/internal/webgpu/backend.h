#pragma once

#include <memory>

#include <etna/device/internal/backend.h>

namespace etna::webgpu {

/// The device that JavaScript opened (webgpu.mjs), if it did.
std::unique_ptr<Backend> make_backend();

}  // namespace etna::webgpu
