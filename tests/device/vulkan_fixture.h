#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/device/internal/vulkan/api/adapters.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/internal/vulkan/api/types.h>
#include <etna/device/memory.h>
#include <etna/shaders/shaders.h>

namespace etna::vulkan {

/// Runs on vulkan:0. Without such a device the test fails if ETNA_TEST_VULKAN=1 requires one, and is skipped otherwise.
/// No test may leave a validation message.
class VulkanTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!adapters().empty() && adapters()[0].rejected.empty()) return;
    const char* expected = std::getenv("ETNA_TEST_VULKAN");
    if (expected && *expected == '1') FAIL() << "no usable Vulkan device: " << why_no_adapters();
    GTEST_SKIP() << "no usable Vulkan device: " << why_no_adapters();
  }
  void TearDown() override { EXPECT_EQ(validation_messages(), 0u); }

  using Words = std::vector<std::uint32_t>;

  static StoragePtr store(const Words& words) {
    StoragePtr made = allocate(kVulkan, words.size() * 4);
    etna::upload(words.data(), *made, 0, words.size() * 4);
    return made;
  }
  static Words load(const Storage& storage, std::size_t count, std::size_t first = 0) {
    Words words(count);
    etna::download(storage, first * 4, words.data(), count * 4);
    return words;
  }

  static Pointer words_at(std::uint64_t address, std::uint64_t count) { return {address, {address, count * 4}}; }

  /// target[i] = source[i] * factor + addend over `count` words, as one dispatch.
  struct Affine {
    const Storage& source;
    std::size_t source_at;
    Storage& target;
    std::size_t target_at;
    std::uint32_t count, factor, addend;
    std::uint32_t groups = 4, local = 32, shared_words = 1;
  };
  static void dispatch(const Affine& a) {
    std::uint32_t spec[] = {a.local, a.shared_words};
    Arguments arguments;
    arguments.read(words_at(a.source.address() + a.source_at * 4, a.count));
    arguments.write(words_at(a.target.address() + a.target_at * 4, a.count));
    for (std::uint32_t n : {a.count, a.factor, a.addend}) arguments.number(n);
    enqueue(kVulkan, {.shader = shaders::test_ranges,
                      .op = "affine",
                      .spec = spec,
                      .arguments = arguments,
                      .groups = {a.groups, 1, 1}});
  }

  template <typename E, typename F>
  static std::string message_of(F&& f) {
    try {
      f();
    } catch (const E& error) {
      return error.what();
    }
    return "nothing of the expected type was thrown";
  }
};

}  // namespace etna::vulkan
