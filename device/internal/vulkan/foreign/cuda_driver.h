#pragma once

#include <array>
#include <cstdint>
#include <string>

/// What is used of the CUDA driver's API, which is loaded at run time. Types and numbers are those of cuda.h; handles
/// are pointers.
namespace etna::vulkan::cuda {

using Result = int;
using DeviceIndex = int;
using Address = unsigned long long;

struct Uuid {
  std::array<std::uint8_t, 16> bytes;
};

constexpr int kOpaqueFd = 1;             ///< CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
constexpr int kTimelineSemaphoreFd = 9;  ///< CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
constexpr unsigned kNonBlocking = 1;     ///< CU_STREAM_NON_BLOCKING

struct ExternalMemory {
  int type;
  union {
    int fd;
    std::array<void*, 2> win32;
  } handle;
  unsigned long long size;
  unsigned flags;
  std::array<unsigned, 16> reserved;
};
struct ExternalBuffer {
  unsigned long long offset, size;
  unsigned flags;
  std::array<unsigned, 16> reserved;
};
struct ExternalSemaphore {
  int type;
  union {
    int fd;
    std::array<void*, 2> win32;
  } handle;
  unsigned flags;
  std::array<unsigned, 16> reserved;
};
/// Of a signal or a wait: the parameters of both have the same size.
struct SemaphoreValue {
  unsigned long long value, sync, key;
  std::array<unsigned, 12> rest;
  unsigned flags;
  std::array<unsigned, 16> reserved;
};
using Handle = unsigned long long;
struct Location {
  int type, id;
};
/// Of memory that is mapped by itself, and can be shared.
struct Allocation {
  int type;
  int handle_types;
  Location location;
  void* win32;
  struct {
    unsigned char compression, rdma;
    unsigned short usage;
    std::array<unsigned char, 4> reserved;
  } flags;
};
struct Access {
  Location location;
  int flags;
};
constexpr int kPinned = 1, kOnDevice = 1, kFileDescriptor = 1, kReadAndWrite = 3;
static_assert(sizeof(Allocation) == 32 && sizeof(Access) == 12);
static_assert(sizeof(ExternalMemory) == 104 && sizeof(ExternalSemaphore) == 96 && sizeof(SemaphoreValue) == 144);

struct Driver {
  Result (*init)(unsigned) = nullptr;
  Result (*device_count)(int*) = nullptr;
  Result (*device)(DeviceIndex*, int) = nullptr;
  Result (*uuid)(Uuid*, DeviceIndex) = nullptr;
  Result (*retain_context)(void**, DeviceIndex) = nullptr;
  Result (*set_context)(void*) = nullptr;
  Result (*create_stream)(void**, unsigned, int) = nullptr;
  Result (*priorities)(int*, int*) = nullptr;
  Result (*import_memory)(void**, const ExternalMemory*) = nullptr;
  Result (*map_buffer)(Address*, void*, const ExternalBuffer*) = nullptr;
  Result (*destroy_memory)(void*) = nullptr;
  Result (*free)(Address) = nullptr;
  Result (*import_semaphore)(void**, const ExternalSemaphore*) = nullptr;
  Result (*signal)(void* const*, const SemaphoreValue*, unsigned, void*) = nullptr;
  Result (*wait)(void* const*, const SemaphoreValue*, unsigned, void*) = nullptr;
  Result (*granularity)(std::size_t*, const Allocation*, int) = nullptr;
  Result (*create_memory)(Handle*, std::size_t, const Allocation*, unsigned long long) = nullptr;
  Result (*release_memory)(Handle) = nullptr;
  Result (*reserve)(Address*, std::size_t, std::size_t, Address, unsigned long long) = nullptr;
  Result (*unreserve)(Address, std::size_t) = nullptr;
  Result (*map)(Address, std::size_t, std::size_t, Handle, unsigned long long) = nullptr;
  Result (*unmap)(Address, std::size_t) = nullptr;
  Result (*set_access)(Address, std::size_t, const Access*, std::size_t) = nullptr;
  Result (*export_memory)(void*, Handle, int, unsigned long long) = nullptr;
  Result (*import_shareable)(Handle*, void*, int) = nullptr;
  Result (*copy)(Address, Address, std::size_t, void* stream) = nullptr;
  Result (*create_event)(void**, unsigned) = nullptr;
  Result (*record)(void*, void* stream) = nullptr;
  Result (*query)(void*) = nullptr;
  Result (*elapsed)(float* milliseconds, void*, void*) = nullptr;
  Result (*error_text)(Result, const char**) = nullptr;

  std::string text(Result result) const;
};

/// Null, and `why`, where there is no driver.
const Driver* driver(std::string& why);

}  // namespace etna::vulkan::cuda
