#pragma once

#include <string>
#include <unordered_map>

#include <etna/device/internal/graph/fuse.h>

namespace etna::webgpu {

/// An elementwise kernel as WGSL that shaders/webgpu/kernels.mjs completes. Addresses, sizes, strides and scalars are
/// words that the kernel reads at run time, so kernels of the same structure share a text.
struct FusedKernel {
  std::string text;
  Arguments arguments;    ///< those words, in the order in which the text numbers them
  bool in_table = false;  ///< they are more than a dispatch has, which gets the address of a table of them instead
};
FusedKernel fused_kernel(const graph::fusion::Kernel& kernel);

/// Fused kernels for WebGPU: elementwise ones. Reductions read what the commands before them wrote.
class WgslWriter final : public graph::fusion::KernelWriter {
 public:
  bool writes_reductions() const override { return false; }
  graph::fusion::WrittenKernel write(const graph::fusion::Kernel& kernel, const std::string& label,
                                     std::span<const std::uint32_t> spec, std::size_t pushed) override;

  /// False under ETNA_FUSE=0.
  static bool enabled();

 private:
  std::unordered_map<std::string, std::string> names_;  ///< by text; their addresses stay
};

}  // namespace etna::webgpu
