#pragma once

#include <etna/device/internal/caching_allocator.h>

namespace etna::cpu {

/// The host's caching allocator over mmap; never destroyed.
CachingAllocator& allocator();

}  // namespace etna::cpu
