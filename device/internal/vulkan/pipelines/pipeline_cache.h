#pragma once

#include <filesystem>

#include <etna/device/internal/vulkan/api/logical_device.h>

namespace etna::vulkan {

/// The driver's pipeline cache, kept on disk between runs: without it a pipeline costs 20 to 90 ms. Lives in
/// $ETNA_CACHE_DIR, $XDG_CACHE_HOME/etna or ~/.cache/etna. A file that is damaged or from another driver is ignored;
/// failing to write one is not an error.
class PipelineCache {
 public:
  explicit PipelineCache(const LogicalDevice& device);

  VkPipelineCache handle() const { return handle_; }
  void note_pipeline() { ++unsaved_; }
  /// Rewrites the file if at least `least` pipelines were built since the last save.
  void save(int least = 1);
  /// Empty where no cache folder is known.
  const std::filesystem::path& file() const { return file_; }
  /// True where the file existed and matched.
  bool loaded() const { return loaded_; }

 private:
  const LogicalDevice& device_;
  std::filesystem::path file_;
  VkPipelineCache handle_ = VK_NULL_HANDLE;
  bool loaded_ = false;
  int unsaved_ = 0;
};

}  // namespace etna::vulkan
