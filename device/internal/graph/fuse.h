#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <etna/device/capture_report.h>
#include <etna/device/internal/graph/command_list.h>
#include <etna/device/internal/graph/fusion_plan.h>

/// Replaces commands of a graph by fused kernels. A backend writes and compiles the kernels, in its shading language.
namespace etna::graph::fusion {

/// A fused kernel as a backend wrote it.
struct WrittenKernel {
  gpu::Shader shader{};
  Arguments arguments;                    ///< addresses, sizes, strides and scalars of the kernel, as its text has them
  bool in_table = false;                  ///< they are too many: the dispatch gets the address of a table of them
  std::uint32_t elements_a_group = 1024;  ///< of an elementwise kernel
  std::uint32_t compiled = 0;             ///< 0: the shader came from a cache
  double compile_ms = 0;
};

/// Size of a label, including the terminating 0.
inline constexpr std::size_t kLabelBytes = 32;

class KernelWriter {
 public:
  virtual ~KernelWriter() = default;
  /// Whether it writes reductions, too, which compute what they read. If not, only elementwise commands are fused.
  virtual bool writes_reductions() const { return true; }
  /// Writes and compiles a kernel, and begins to build what a dispatch of it needs.
  /// @param label "fused(mul, tanh, add)", for errors
  /// @param spec, pushed of a reduction: its specialization constants, and the bytes of arguments before the kernel's
  /// @throws DeviceError where that fails; the ops then run one by one
  virtual WrittenKernel write(const Kernel& kernel, const std::string& label, std::span<const std::uint32_t> spec,
                              std::size_t pushed) = 0;
};

/// Replaces elementwise commands and their consumers by generated kernels, and reorders commands accordingly.
/// @param dropped storages that nobody refers to any more, in order of address
/// @param constant stores a constant table on the device and returns its address
/// @param report gets what was fused
void fuse(CommandList& list, std::span<const MemoryRange> dropped, KernelWriter& writer,
          const std::function<Pointer(const Arguments&)>& constant, CaptureReport& report);

}  // namespace etna::graph::fusion
