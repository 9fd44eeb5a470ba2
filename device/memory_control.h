#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include <etna/device/device.h>

/// What a program asks of the devices' caching allocators (docs/memory.md). memory.h has what they hold.
namespace etna {

/// "1500", "512 MiB", "1.5G", "25%". K, M, G, T and KiB ... TiB are powers of 1024; KB ... TB are powers of 1000.
/// @param whole what a share is of, in bytes; 0: shares are errors
/// @throws Error for any other text, and for more than 2^62 bytes
std::uint64_t parse_bytes(std::string_view text, std::uint64_t whole = 0);

inline constexpr std::uint64_t kNoCacheLimit = ~std::uint64_t{0};

/// Bytes that the device's allocator keeps of what was freed. Freed memory beyond that goes back to the system at once,
/// the longest unused first, which waits for the device. Memory goes back by whole pieces (4 MiB for tensors of up to
/// 1 MiB), so what shares a piece with a live tensor stays. What reserve_memory() took does not count.
void set_cache_limit(Device device, std::uint64_t bytes);
/// kNoCacheLimit at first, or what $ETNA_CACHE_LIMIT says.
std::uint64_t cache_limit(Device device);

/// Waits for the device and gives its cached memory back to the system, as empty_cache() does.
/// @return bytes given back
std::uint64_t trim_memory(Device device);

/// For places where a program may have nothing to do, a server's loop for example: trims every device in use that no
/// tensor was made on or freed from since a call at least `idle` ago. Etna calls it nowhere, and starts no thread.
/// @return bytes given back
std::uint64_t trim_when_idle(std::chrono::milliseconds idle = std::chrono::seconds(30));

/// Takes memory from the system now, from which later tensors are cut, so that a lack of it is an error at the start.
/// Raises what is reserved to `bytes`; 0 gives back the reserved pieces that hold no tensor. Takes one piece, or a few
/// where the driver gives no such piece. On the CPU its pages are written, so that they exist.
/// @throws OutOfMemory, and then nothing was taken
void reserve_memory(Device device, std::uint64_t bytes);
/// Bytes of the pieces that are reserved, in use or not.
std::uint64_t reserved_memory(Device device);

}  // namespace etna
