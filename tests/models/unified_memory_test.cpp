#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/internal/host_import.h>
#include <etna/device/internal/os/memory.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>
#include <nn/on_device.h>

#include "data/temporary_folder.h"
#include "small_models.h"

// Weights on a GPU that shares the host's memory stay in the mapping of their file.
namespace etna::models {
namespace {

/// Whether vulkan:0 reads memory of the host in place.
bool shares_memory() {
  constexpr std::size_t kBytes = 1 << 17;
  std::error_code error;
  const std::shared_ptr<std::byte> pages(os::take_pages(kBytes, error),
                                         [](std::byte* at) { os::return_pages(at, kBytes); });
  return import_host(kVulkan, {pages.get(), kBytes}, pages) != nullptr;
}

std::vector<std::int32_t> unified_memory_greedy_text(const Decoder& decoder, Device device) {
  Generator generator(decoder, {.device = device, .cache = {.dtype = f32}});
  std::vector<std::int32_t> tokens;
  generator.generate(some_text(7, 97), {.max_tokens = 12, .sampling = {.temperature = 0}}, [&](std::int32_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

class UnifiedMemory : public OnDevice {};

TEST_P(UnifiedMemory, WeightsAreReadFromTheirFile) {
  if (!shares_memory()) GTEST_SKIP() << "the GPU does not read memory of the host";
  const TemporaryFolder folder;
  DecoderConfig config = small_config("llama");
  config.width = 256;
  config.head_size = 64;
  config.feed_forward = 512;
  const auto model = small_model(config);
  const auto path = folder / "model.gguf";
  save_gguf_model(path, *model, nullptr);
  const std::vector<std::int32_t> wanted = unified_memory_greedy_text(*model, kCPU);
  const std::uint64_t before = memory_stats(kVulkan).in_use;
  const Model loaded = load_model(path, {.device = kVulkan});
  EXPECT_LT(memory_stats(kVulkan).in_use - before, std::filesystem::file_size(path) / 8);
  std::filesystem::remove(path);
  EXPECT_EQ(unified_memory_greedy_text(*loaded.decoder, kVulkan), wanted);
}

INSTANTIATE_TEST_SUITE_P(Device, UnifiedMemory, testing::Values(kVulkan), device_type);

}  // namespace
}  // namespace etna::models
