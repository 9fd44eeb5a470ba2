#pragma once

#include <filesystem>

#include <etna/device/vulkan/api/logical_device.h>

namespace etna::vulkan {

/// What the driver learned building pipelines, kept on disk from run to run: a pipeline costs 20 to 90 ms without it.
/// Lives in $ETNA_CACHE_DIR, $XDG_CACHE_HOME/etna or ~/.cache/etna. A file that is damaged or of another driver is not
/// used, and one that cannot be written is not missed.
class PipelineCache {
 public:
  explicit PipelineCache(const LogicalDevice& device);

  VkPipelineCache handle() const { return handle_; }
  void note_pipeline() { ++unsaved_; }
  /// Writes the file anew where at least `least` pipelines were made since the last time.
  void save(int least = 1);
  /// Empty where no folder is known.
  const std::filesystem::path& file() const { return file_; }
  /// True where the file was there and fit.
  bool loaded() const { return loaded_; }

 private:
  const LogicalDevice& device_;
  std::filesystem::path file_;
  VkPipelineCache handle_ = VK_NULL_HANDLE;
  bool loaded_ = false;
  int unsaved_ = 0;
};

}  // namespace etna::vulkan
