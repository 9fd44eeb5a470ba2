#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
/// tensor was made on or freed from since a call at least `seconds` ago. `etna serve` does so while nothing runs.
/// @return bytes given back
std::uint64_t trim_when_idle(double seconds = 30);

/// Takes memory from the system now, from which later tensors are cut, so that a lack of it is an error at the start.
/// Raises what is reserved to `bytes`; 0 gives back the reserved pieces that hold no tensor. Takes one piece, or a few
/// where the driver gives no such piece. On the CPU its pages are written, so that they exist.
/// @throws OutOfMemory, and then nothing was taken
void reserve_memory(Device device, std::uint64_t bytes);
/// Bytes of the pieces that are reserved, in use or not.
std::uint64_t reserved_memory(Device device);

/// Live storages of one op, tensor and device that were made in steps that have ended.
struct Leak {
  Device device;
  std::string op;           ///< that made them
  std::string tensor;       ///< "[64, 512] f32", "4.0 KiB" where it is unknown
  std::uint64_t count = 0;  ///< storages
  std::uint64_t bytes = 0;
  std::int64_t first_step = 0, last_step = 0;  ///< that made one, from 0
};

/// Notes every storage from now on with the op that makes it; steps count from 0. Off: forgets all of them.
void watch_leaks(bool on);
bool watching_leaks();

/// Ends a step. Optimizer::step() calls it, and so does the replay of a captured step that contains one; other loops
/// (inference) may. Does nothing where nobody watches.
void end_step();

/// What grows, the most bytes first: the oldest was made at least 8 steps ago, and there are more than when it
/// became so old. Not among them: weights, gradients, optimizer state, data, the memory of captured steps, and what
/// was made before the first step ended. Empty where nobody watches.
std::vector<Leak> leaks();

/// leaks() as lines of text, or those of an earlier step where more was alive then: at the end of a program its lists
/// are gone.
std::string leaks_report();

namespace detail {
/// For those that make storages.
void note_tensor(const void* storage, const char* op, std::string tensor);
/// Since the process began, watched or not.
std::int64_t steps_ended();
}  // namespace detail

}  // namespace etna
