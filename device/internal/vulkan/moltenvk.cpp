#include <etna/device/internal/moltenvk.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/device/internal/vulkan/api/adapter.h>
#include <etna/device/internal/vulkan/pipelines/spirv.h>

namespace etna {
namespace {

using namespace vulkan;

/// What a shader may declare, and what MoltenVK has of it. Numbers are SPIR-V's.
struct Capability {
  std::uint32_t number;
  bool there;
  const char* name;
};
constexpr Capability kCapabilities[] = {
    {1, true, "shaders"},
    {9, true, "arithmetic on float16"},
    {10, false, "float64"},
    {11, true, "int64"},
    {12, false, "atomics on int64"},
    {22, true, "arithmetic on int16"},
    {39, true, "arithmetic on int8"},
    {61, true, "subgroups"},
    {62, true, "votes of subgroups"},
    {63, true, "arithmetic of subgroups"},
    {64, true, "ballots of subgroups"},
    {65, true, "shuffles of subgroups"},
    {66, true, "relative shuffles of subgroups"},
    {67, true, "clusters of subgroups"},
    {68, true, "quads of subgroups"},
    {4427, true, "draw parameters"},
    {4433, true, "storage of 16 bits"},
    {4434, true, "uniform storage of 16 bits"},
    {4448, true, "storage of 8 bits"},
    {4449, true, "uniform storage of 8 bits"},
    {4464, false, "kept subnormal numbers"},
    {4465, false, "subnormal numbers as zeros"},
    {4466, true, "kept signed zeros, infinities and NaNs"},
    {4467, true, "rounding to even"},
    {4468, false, "rounding toward zero"},
    {5116, false, "bfloat16"},
    {5117, false, "bfloat16"},
    {5118, false, "bfloat16"},
    {5345, true, "Vulkan's memory model"},
    {5346, true, "Vulkan's memory model for the device"},
    {5347, true, "buffer addresses"},
    {5430, false, "cooperative matrices"},
    {5431, false, "cooperative matrices"},
    {5432, false, "cooperative matrices"},
    {5433, false, "cooperative matrices"},
    {5434, false, "cooperative matrices"},
    {5439, false, "cooperative matrices"},
    {5440, false, "cooperative matrices"},
    {6016, true, "dot products of integers"},
    {6017, true, "dot products of integers"},
    {6018, true, "dot products of integers"},
    {6019, true, "dot products of integers"},
    {6022, false, "cooperative matrices"},
    {6033, true, "atomic sums of f32"},
};
constexpr std::uint32_t kSharedBytes = 32768, kInvocations = 1024;

Features features() {
  Features f;
  f.core.features.shaderInt16 = f.core.features.shaderInt64 = VK_TRUE;
  f.v11.storageBuffer16BitAccess = VK_TRUE;
  f.v12.bufferDeviceAddress = f.v12.timelineSemaphore = f.v12.scalarBlockLayout = VK_TRUE;
  f.v12.storageBuffer8BitAccess = f.v12.shaderFloat16 = f.v12.shaderInt8 = VK_TRUE;
  f.v12.vulkanMemoryModel = f.v12.vulkanMemoryModelDeviceScope = f.v12.hostQueryReset = VK_TRUE;
  f.v12.shaderSubgroupExtendedTypes = VK_TRUE;
  f.v13.maintenance4 = f.v13.shaderIntegerDotProduct = VK_TRUE;
  return f;
}

VkPhysicalDeviceVulkan11Properties subgroups() {
  VkPhysicalDeviceVulkan11Properties p{};
  p.subgroupSize = 32;
  p.subgroupSupportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
  p.subgroupSupportedOperations =
      VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
  return p;
}

/// What MoltenVK lacks for the shader; empty: nothing.
std::string lacks(const gpu::Shader& shader) {
  for (const std::uint32_t number : shader_declarations(shader.words).capabilities) {
    const auto* known = std::find_if(std::begin(kCapabilities), std::end(kCapabilities),
                                     [&](const Capability& c) { return c.number == number; });
    if (known == std::end(kCapabilities))
      return fmt::format("SPIR-V's capability {}, which is not on the list", number);
    if (!known->there) return known->name;
  }
  const ShaderNeeds needs = shader_needs(shader.words, {});
  if (needs.shared_bytes > kSharedBytes) return fmt::format("more than {} bytes of shared memory", kSharedBytes);
  if (std::uint64_t{needs.local_size[0]} * needs.local_size[1] * needs.local_size[2] > kInvocations)
    return fmt::format("workgroups of more than {}", kInvocations);
  return "";
}

}  // namespace

MoltenVkReport moltenvk_report(std::span<const gpu::Shader* const> shaders) {
  MoltenVkReport report;
  report.missing = missing_features(features(), subgroups());
  for (const gpu::Shader* shader : shaders) {
    if (shader->words.empty()) {
      ++report.unbuilt;
      continue;
    }
    ++report.kernels;
    const std::string what = lacks(*shader);
    if (what.empty()) continue;
    auto group = std::find_if(report.left_out.begin(), report.left_out.end(),
                              [&](const MoltenVkReport::LeftOut& l) { return l.lacks == what; });
    if (group == report.left_out.end()) group = report.left_out.insert(group, {what, {}});
    group->kernels.push_back(shader->name);
  }
  return report;
}

}  // namespace etna
