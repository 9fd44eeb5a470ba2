#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <etna/device/memory.h>

/// What memory.cpp tells memory_leaks.cpp while somebody watches.
namespace etna::leak_notes {

extern std::atomic<bool> on;
inline bool watching() { return on.load(std::memory_order_relaxed); }

/// @param has_memory false: it takes memory later, and then calls took_memory()
void made(const Storage& storage, MemoryUse use, bool has_memory);
void took_memory(const Storage& storage);
void changed_use(const Storage& storage, MemoryUse use);
/// It is destroyed, or its bytes are another's from now on.
void gone(const Storage& storage);

}  // namespace etna::leak_notes
