#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <etna/device/memory.h>

namespace etna {

/// Bytes of the host for a GPU that shares its memory, which reads them where they are. They begin at a multiple of 16
/// and may not change; their whole pages stay readable as long as `owner` lives, which the storage keeps alive.
/// $ETNA_COPY_WEIGHTS=1 turns it off.
/// @returns null where the device or its driver cannot, or for less than 64 KiB: then upload() a copy
StoragePtr import_host(Device device, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
/// Whether a storage's bytes are import_host()'s.
bool is_imported(const Storage& storage);

}  // namespace etna
