#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <etna/device/vulkan/api/logical_device.h>
#include <etna/device/vulkan/pipelines/pipeline_cache.h>

namespace etna::vulkan {

/// Compute pipelines by shader and specialization constants, created on first use. All share one layout: 128 bytes of
/// push constants and no descriptors.
class Pipelines {
 public:
  explicit Pipelines(const LogicalDevice& device);

  /// @throws DeviceError naming `op` where the shader asks for more than the device has.
  VkPipeline get(const Shader& shader, std::span<const std::uint32_t> spec, std::string_view op, bool& made);
  VkPipelineLayout layout() const { return layout_; }
  PipelineCache& cache() { return cache_; }

  static constexpr std::size_t kPushBytes = 128;

 private:
  struct Variant {
    std::vector<std::uint32_t> spec;
    VkPipeline pipeline;
  };
  VkPipeline make(const Shader& shader, std::span<const std::uint32_t> spec, std::string_view op);
  void require_fit(const Shader& shader, std::span<const std::uint32_t> spec, std::string_view op) const;

  const LogicalDevice& device_;
  PipelineCache cache_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  /// Keyed by the address of the shader's words. A shader has few variants, so a linear search is enough.
  std::unordered_map<const std::uint32_t*, std::vector<Variant>> made_;
};

}  // namespace etna::vulkan
