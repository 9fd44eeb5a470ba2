#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <etna/device/internal/vulkan/api/logical_device.h>
#include <etna/device/internal/vulkan/pipelines/pipeline_cache.h>

namespace etna::vulkan {

/// A compute pipeline that is there, or is being built. Building one takes a driver 20 to 90 ms, on one core.
class Pipeline {
 public:
  explicit Pipeline(std::function<VkPipeline()> build) : build_(std::move(build)) {}

  /// Waits where another thread is building it, builds it here where none has begun. @throws what building threw
  VkPipeline get();
  /// For a thread with nothing better to do.
  void build();

 private:
  std::function<VkPipeline()> build_;
  std::atomic<bool> begun_{false};
  std::promise<VkPipeline> made_;
  std::shared_future<VkPipeline> result_ = made_.get_future().share();
  VkPipeline handle_ = VK_NULL_HANDLE;  ///< of the thread that queues work, once it asked
};

/// Compute pipelines by shader and specialization constants, begun on first use and built by several threads at once:
/// who queues work needs them when it submits. All share one layout: 128 bytes of push constants and no descriptors.
class Pipelines {
 public:
  explicit Pipelines(const LogicalDevice& device);
  ~Pipelines();

  /// Lives as long as this. @throws DeviceError naming `op` where the shader asks for more than the device has.
  Pipeline& get(const Shader& shader, std::span<const std::uint32_t> spec, std::string_view op, bool& made);
  /// True while threads build: work that is queued meanwhile had better wait for all of them at once.
  bool building() const { return unbuilt_.load(std::memory_order_relaxed) > 0; }
  /// Ends the threads that build, once they are done with what they have begun.
  void leave();
  VkPipelineLayout layout() const { return layout_; }
  PipelineCache& cache() { return cache_; }

  static constexpr std::size_t kPushBytes = 128;

 private:
  struct Variant {
    std::vector<std::uint32_t> spec;
    std::unique_ptr<Pipeline> pipeline;
  };
  class Builders;
  VkPipeline make(const Shader& shader, std::span<const std::uint32_t> spec, const std::string& op) const;
  void require_fit(const Shader& shader, std::span<const std::uint32_t> spec, std::string_view op) const;

  const LogicalDevice& device_;
  PipelineCache cache_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  /// Keyed by the address of the shader's words. A shader has few variants, so a linear search is enough.
  std::unordered_map<const std::uint32_t*, std::vector<Variant>> made_;
  std::atomic<int> unbuilt_{0};
  std::unique_ptr<Builders> builders_;
};

}  // namespace etna::vulkan
