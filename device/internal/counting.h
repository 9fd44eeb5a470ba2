#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <etna/device/kernel.h>
#include <etna/device/kernel_counts.h>

/// The table behind CountKernels, and what those who run kernels tell it.
namespace etna::counting {

namespace detail {
inline constinit std::atomic<std::uint32_t> users{0};
}
/// True while somebody counts. What follows is called only then.
inline bool on() { return detail::users.load(std::memory_order_relaxed) != 0; }

/// A row of the table: it lives as long as the process.
struct Row {
  std::atomic<std::uint64_t> eager{0}, replayed{0}, launches{0};
};

/// What tells kernels apart. Spans need only live during the call.
struct KernelKey {
  Device device;
  std::string_view kernel, op;
  std::span<const std::uint32_t> constants = {};
};

/// @param path is called where the kernel is new
Row& row(const KernelKey& key, const std::function<std::string()>& path);
/// The rows of launches on a GPU.
Row& row(Device device, const gpu::Dispatch& dispatch);
Row& row(Device device, const gpu::CubinDispatch& dispatch);
/// "copy", "fill", "update"
Row& row_of_bytes(Device device, std::string_view command);
Row& row(Detour detour, Device device, std::string_view op);

/// One run, launched by this thread. Within a replay it counts as replayed.
void ran(Row& row);
void replayed(Row& row, std::uint64_t runs, std::uint64_t launches);
void replay();

/// While one lives, what this thread runs is part of a replay.
class InReplay {
 public:
  InReplay();
  ~InReplay();
  InReplay(const InReplay&) = delete;
  InReplay& operator=(const InReplay&) = delete;

 private:
  bool before_;
};

/// What a shader's code says of itself: "SPIR-V", or "SPIR-V, cooperative matrix".
std::string path_of(std::span<const std::uint32_t> spirv);
/// "cubin sm_90"
std::string path_of(const gpu::CubinKernel& kernel);

}  // namespace etna::counting
