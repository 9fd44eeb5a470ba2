#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/backend.h>
#include <etna/device/internal/cpu/backend.h>
#include <etna/device/internal/fake/backend.h>
#ifdef ETNA_HAS_VULKAN
#include <etna/device/internal/vulkan/backend.h>
#endif
#ifdef ETNA_HAS_WEBGPU
#include <etna/device/internal/webgpu/backend.h>
#endif

namespace etna {

#ifndef ETNA_HAS_VULKAN
namespace {

/// Stands in for Vulkan in a build without it.
class NoVulkan final : public Backend {
 public:
  const char* name() const override { return "vulkan"; }
  const std::vector<AdapterInfo>& adapters() override {
    static const std::vector<AdapterInfo> none;
    return none;
  }
  std::string why_no_adapters() override { return "this build is without Vulkan (ETNA_VULKAN=OFF)"; }
  std::string advice() override { return "build with -DETNA_VULKAN=ON, or use --device cpu"; }
  CachingAllocator& allocator(Device device) override { fail(device); }
  void upload(Device device, const void*, std::uint64_t, std::size_t) override { fail(device); }
  void download(Device device, std::uint64_t, void*, std::size_t) override { fail(device); }
  void copy(Device device, const Storage&, std::size_t, Storage&, std::size_t, std::size_t) override { fail(device); }

 private:
  [[noreturn]] void fail(Device device) {
    throw DeviceError(fmt::format("{}: {}; {}", device.str(), why_no_adapters(), advice()));
  }
};

}  // namespace
#endif

std::vector<std::unique_ptr<Backend>> built_in_backends() {
  std::vector<std::unique_ptr<Backend>> all;
  all.push_back(cpu::make_backend());
#ifdef ETNA_HAS_VULKAN
  all.push_back(vulkan::make_backend());
#else
  all.push_back(std::make_unique<NoVulkan>());
#endif
#ifdef ETNA_HAS_WEBGPU
  all.push_back(webgpu::make_backend());
#endif
  if (std::unique_ptr<Backend> fake = fake::make_backend()) all.push_back(std::move(fake));
  return all;
}

}  // namespace etna
