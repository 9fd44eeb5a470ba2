#include <etna/device/internal/vulkan/executable/fusion/glsl_writer.h>

#include <etna/device/internal/vulkan/executable/fusion/glsl.h>
#include <etna/device/internal/vulkan/executable/fusion/kernel_text.h>

namespace etna::vulkan::fusion {

graph::fusion::WrittenKernel GlslWriter::write(const Kernel& kernel, const std::string& label,
                                               std::span<const std::uint32_t> spec, std::size_t pushed) {
  KernelText text = kernel_text(kernel, pushed, context_.logical.adapter.capabilities.compute_units);
  GlslFigures figures;
  const Shader& shader = compile_glsl(text.source, figures);
  {
    std::lock_guard lock(context_.mutex);
    context_.pipeline(shader, spec, label);
  }
  return {.shader = shader,
          .arguments = std::move(text.arguments),
          .in_table = text.in_table,
          .elements_a_group = text.elements_a_group,
          .compiled = figures.compiled,
          .compile_ms = figures.compile_ms};
}

}  // namespace etna::vulkan::fusion
