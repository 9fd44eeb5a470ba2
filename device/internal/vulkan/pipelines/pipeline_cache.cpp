#include <etna/device/internal/vulkan/pipelines/pipeline_cache.h>

#include <cstring>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/cache_file.h>
#include <etna/device/internal/cache_folder.h>

namespace etna::vulkan {
namespace {

namespace fs = std::filesystem;

/// Drivers check their own data poorly or not at all, so the file's checksum covers all of it.
constexpr CacheMagic kMagic = {'E', 'T', 'N', 'A', 'P', 'C', '0', '1'};

std::string file_name(const VkPhysicalDeviceProperties& p) {
  std::string name = fmt::format("pipelines-{:04x}-{:04x}-", p.vendorID, p.deviceID);
  for (std::uint8_t byte : p.pipelineCacheUUID) name += fmt::format("{:02x}", byte);
  return name + ".bin";
}

std::vector<char> read(const fs::path& file, const VkPhysicalDeviceProperties& p) {
  std::vector<char> data = read_cache_file(file, kMagic);
  VkPipelineCacheHeaderVersionOne driver;
  if (data.size() < sizeof driver) return {};
  std::memcpy(&driver, data.data(), sizeof driver);
  bool ours = driver.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && driver.vendorID == p.vendorID &&
              driver.deviceID == p.deviceID &&
              std::memcmp(driver.pipelineCacheUUID, p.pipelineCacheUUID, VK_UUID_SIZE) == 0;
  return ours ? data : std::vector<char>{};
}

}  // namespace

PipelineCache::PipelineCache(const LogicalDevice& device) : device_(device) {
  const VkPhysicalDeviceProperties& p = device_.adapter.properties;
  std::vector<char> data;
  if (fs::path where = cache_folder(); !where.empty()) {
    file_ = where / file_name(p);
    data = read(file_, p);
    loaded_ = !data.empty();
  }
  auto info = structure<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
  info.initialDataSize = data.size();
  info.pInitialData = data.data();
  if (device_.vk.vkCreatePipelineCache(device_.handle, &info, nullptr, &handle_) != VK_SUCCESS) {
    handle_ = VK_NULL_HANDLE;
  }
}

void PipelineCache::save(int least) {
  if (unsaved_ < least || file_.empty() || !handle_) return;
  unsaved_ = 0;
  std::size_t size = 0;
  if (device_.vk.vkGetPipelineCacheData(device_.handle, handle_, &size, nullptr) != VK_SUCCESS) return;
  std::vector<char> data(size);
  if (device_.vk.vkGetPipelineCacheData(device_.handle, handle_, &size, data.data()) != VK_SUCCESS) return;
  data.resize(size);
  write_cache_file(file_, kMagic, data);
}

}  // namespace etna::vulkan
