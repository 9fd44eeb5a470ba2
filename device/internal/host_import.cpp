#include <etna/device/internal/host_import.h>

#include <utility>

#include <etna/device/internal/backend.h>

namespace etna {

StoragePtr import_host(Device device, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  return backend(device).import_host(device, bytes, std::move(owner));
}

bool is_imported(const Storage& storage) { return backend(storage.device()).is_imported(storage); }

}  // namespace etna
