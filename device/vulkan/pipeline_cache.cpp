#include <etna/device/vulkan/pipeline_cache.h>

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include <etna/device/cache_folder.h>

namespace etna::vulkan {
namespace {

namespace fs = std::filesystem;

/// Stands before the driver's own data. Drivers check their part badly or not at all, so the sum guards all of it.
struct Header {
  char magic[8] = {'E', 'T', 'N', 'A', 'P', 'C', '0', '1'};
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
};

std::uint64_t fnv1a(const std::vector<char>& data) {
  std::uint64_t sum = 14695981039346656037ull;
  for (char c : data) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return sum;
}

std::string file_name(const VkPhysicalDeviceProperties& p) {
  std::string name = fmt::format("pipelines-{:04x}-{:04x}-", p.vendorID, p.deviceID);
  for (std::uint8_t byte : p.pipelineCacheUUID) name += fmt::format("{:02x}", byte);
  return name + ".bin";
}

std::vector<char> read(const fs::path& file, const VkPhysicalDeviceProperties& p) {
  std::ifstream in(file, std::ios::binary);
  Header header, expected;
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header)) return {};
  std::vector<char> data{std::istreambuf_iterator<char>(in), {}};
  expected.bytes = data.size();
  expected.sum = fnv1a(data);
  if (std::memcmp(&header, &expected, sizeof header) != 0) return {};
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
  Header header;
  header.bytes = data.size();
  header.sum = fnv1a(data);

  std::error_code ignored;
  fs::create_directories(file_.parent_path(), ignored);
  fs::path temporary = file_;
  temporary += fmt::format(".{}", ::getpid());
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out.write(data.data(), static_cast<std::streamsize>(data.size()));
    if (!out.flush()) {
      out.close();
      fs::remove(temporary, ignored);
      return;
    }
  }
  fs::rename(temporary, file_, ignored);
  if (ignored) fs::remove(temporary, ignored);
}

}  // namespace etna::vulkan
