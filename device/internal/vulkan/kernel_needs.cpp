#include <utility>

#include <etna/device/internal/choices/kernel_log.h>
#include <etna/device/internal/vulkan/pipelines/spirv.h>

namespace etna::detail {

void add_shader_needs(ChosenKernel& kernel, const gpu::Dispatch& dispatch) {
  if (dispatch.shader.words.empty()) return;
  const vulkan::ShaderNeeds needs = vulkan::shader_needs(dispatch.shader.words, dispatch.spec);
  const std::pair<bool, const char*> all[] = {
      {needs.float16, "float16"},     {needs.float64, "float64"},
      {needs.int64, "int64"},         {needs.int16, "int16"},
      {needs.int8, "int8"},           {needs.packed_dot, "packed_dot"},
      {needs.subgroups, "subgroups"}, {needs.cooperative_matrix, "cooperative_matrix"},
  };
  for (const auto& [needed, name] : all) {
    if (needed) kernel.needs.emplace_back(name);
  }
  kernel.shared_bytes = needs.shared_bytes;
  kernel.threads = needs.local_size[0] * needs.local_size[1] * needs.local_size[2];
}

}  // namespace etna::detail
