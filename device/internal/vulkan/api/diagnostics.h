#pragma once

#include <cstdint>

#include <etna/device/device.h>

/// Queries and switches of the Vulkan backend for tests and reports.
namespace etna::vulkan {

/// Validation messages (core and synchronization) seen so far; the layers are on under ETNA_VALIDATION=1.
std::uint64_t validation_messages();
bool validation_enabled();

/// Whether a barrier follows every dispatch: ETNA_BARRIERS=all, or the last set_barriers_everywhere(). Used to find
/// missing barriers: results must be the same bits. Captured steps keep the setting they were compiled with.
bool barriers_everywhere();
void set_barriers_everywhere(bool on);

}  // namespace etna::vulkan
