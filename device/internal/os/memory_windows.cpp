#include <etna/device/internal/os/memory.h>

#include <windows.h>

namespace etna::os {
namespace {

MEMORYSTATUSEX status() {
  MEMORYSTATUSEX now{};
  now.dwLength = sizeof now;
  ::GlobalMemoryStatusEx(&now);
  return now;
}

}  // namespace

/// Huge pages take a privilege there, so none are asked for.
std::byte* take_pages(std::size_t bytes, std::error_code& error) {
  void* at = ::VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  error.clear();
  if (at == nullptr) error = {static_cast<int>(::GetLastError()), std::system_category()};
  return static_cast<std::byte*>(at);
}

void return_pages(std::byte* at, std::size_t) { ::VirtualFree(at, 0, MEM_RELEASE); }

std::uint64_t memory_bytes() { return status().ullTotalPhys; }

std::uint64_t available_memory_bytes() { return status().ullAvailPhys; }

}  // namespace etna::os
