#pragma once

#include <cstdint>

#include <etna/device/device.h>

/// What tests and reports ask of the Vulkan backend.
namespace etna::vulkan {

/// Validation messages (core and synchronization) seen so far; the layers are on under ETNA_VALIDATION=1.
std::uint64_t validation_messages();
bool validation_enabled();

/// Whether a barrier stands behind every dispatch: ETNA_BARRIERS=all, or what was set since. To look for a barrier that
/// is missing: the same bits must come out. Programs keep what held when they were baked.
bool barriers_everywhere();
void set_barriers_everywhere(bool on);

}  // namespace etna::vulkan
