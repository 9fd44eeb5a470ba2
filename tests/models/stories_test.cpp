#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include <etna/device/device.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>

// The model of 260 thousand weights that comes with llama2.c, where it is there.
namespace etna::models {
namespace {

std::filesystem::path stories_folder() {
  const char* data = std::getenv("ETNA_DATA");
  return data == nullptr ? std::filesystem::path() : std::filesystem::path(data).parent_path() / "stories260K";
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void expect_greedy_text(Device device, DType cache) {
  const std::filesystem::path folder = stories_folder();
  if (!std::filesystem::exists(folder / "checkpoint_legacy.bin")) GTEST_SKIP() << "stories260K is not there";
  const Model model = load_model(folder / "checkpoint_legacy.bin", {.device = device});
  ASSERT_NE(model.tokenizer, nullptr);
  Generator generator(*model.decoder, {.device = device, .cache = {.dtype = cache}});
  const std::vector<std::int32_t> prompt{model.tokenizer->bos().value()};
  std::vector<std::int32_t> tokens;
  const StopReason reason =
      generator.generate(prompt, {.max_tokens = 256, .sampling = {.temperature = 0}}, [&](std::int32_t token) {
        tokens.push_back(token);
        return true;
      });
  EXPECT_EQ(reason, StopReason::max_tokens);
  const std::string expected = text_of(folder / "expected_greedy.txt"), text = model.tokenizer->decode(tokens);
  EXPECT_EQ(text, expected);
}

TEST(Stories, GreedyTextOnTheCpu) { expect_greedy_text(kCPU, f32); }
TEST(Stories, GreedyTextOnVulkan) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  expect_greedy_text(kVulkan, f32);
}
TEST(Stories, GreedyTextWithKeysInF16) { expect_greedy_text(kCPU, f16); }

}  // namespace
}  // namespace etna::models
