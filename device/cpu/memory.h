#pragma once

#include <etna/device/caching_allocator.h>

namespace etna::cpu {

/// The host's caching allocator over mmap; lives to the end of the process.
CachingAllocator& allocator();

}  // namespace etna::cpu
