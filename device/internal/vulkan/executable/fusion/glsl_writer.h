#pragma once

#include <etna/device/internal/graph/fuse.h>
#include <etna/device/internal/vulkan/commands/context.h>

namespace etna::vulkan::fusion {

/// Fused kernels as GLSL.
class GlslWriter final : public graph::fusion::KernelWriter {
 public:
  explicit GlslWriter(Context& context) : context_(context) {}
  graph::fusion::WrittenKernel write(const graph::fusion::Kernel& kernel, const std::string& label,
                                     std::span<const std::uint32_t> spec, std::size_t pushed) override;

 private:
  Context& context_;
};

}  // namespace etna::vulkan::fusion
