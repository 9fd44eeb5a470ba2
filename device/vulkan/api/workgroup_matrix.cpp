#include <etna/device/vulkan/api/workgroup_matrix.h>

#include <optional>

#include <etna/device/vulkan/api/instance.h>
#include <etna/device/vulkan/commands/context.h>

namespace etna::vulkan {
namespace {

std::optional<MatrixElement> element(VkComponentTypeKHR type, bool bfloat16) {
  if (type == VK_COMPONENT_TYPE_FLOAT16_KHR) return MatrixElement::f16;
  if (type == VK_COMPONENT_TYPE_BFLOAT16_KHR && bfloat16) return MatrixElement::bf16;
  if (type == VK_COMPONENT_TYPE_FLOAT32_KHR) return MatrixElement::f32;
  return {};
}

}  // namespace

std::vector<WorkgroupMatrix> find_workgroup_matrices(const Adapter& adapter) {
  std::vector<WorkgroupMatrix> kinds;
  const VkPhysicalDeviceCooperativeMatrix2FeaturesNV& f = adapter.features.matrix2;
  auto ask = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV>(
      vkGetInstanceProcAddr(instance().handle, "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV"));
  const bool usable = f.cooperativeMatrixWorkgroupScope && f.cooperativeMatrixFlexibleDimensions &&
                      f.cooperativeMatrixTensorAddressing && f.cooperativeMatrixPerElementOperations;
  if (!usable || ask == nullptr) return kinds;
  std::uint32_t count = 0;
  ask(adapter.handle, &count, nullptr);
  std::vector<VkCooperativeMatrixFlexibleDimensionsPropertiesNV> found(
      count, structure<VkCooperativeMatrixFlexibleDimensionsPropertiesNV>(
                 VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV));
  ask(adapter.handle, &count, found.data());
  const bool bfloat16 = adapter.features.bfloat16.shaderBFloat16CooperativeMatrix == VK_TRUE;
  for (const auto& p : found) {
    std::optional<MatrixElement> operands = element(p.AType, bfloat16), sums = element(p.CType, false);
    if (p.scope != VK_SCOPE_WORKGROUP_KHR || p.saturatingAccumulation || !operands || !sums) continue;
    if (p.AType != p.BType || p.CType != p.ResultType) continue;
    kinds.push_back({p.MGranularity, p.NGranularity, p.KGranularity, *operands, *sums, p.workgroupInvocations});
  }
  return kinds;
}

std::span<const WorkgroupMatrix> workgroup_matrices(Device device) {
  return Context::of(device).logical.adapter.workgroup_matrices;
}

}  // namespace etna::vulkan
