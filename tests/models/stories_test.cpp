#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
#include <etna/device/device.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/loss/loss.h>

// The model of 260 thousand weights that comes with llama2.c, where it is there.
namespace etna::models {
namespace {

std::filesystem::path stories_folder() {
  if (const char* folder = std::getenv("ETNA_STORIES")) return folder;
  const char* data = std::getenv("ETNA_DATA");
  return data == nullptr ? std::filesystem::path() : std::filesystem::path(data).parent_path() / "stories260K";
}

std::string stories_text_of(const std::filesystem::path& file) {
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
  const std::string expected = stories_text_of(folder / "expected_greedy.txt"), text = model.tokenizer->decode(tokens);
  EXPECT_EQ(text, expected);
}

/// Mean negative log-likelihood of its own text.
double stories_loss_of(const Model& model, const std::string& text) {
  std::vector<std::int32_t> tokens = model.tokenizer->encode_prompt(text);
  Generator generator(*model.decoder, {.cache = {.dtype = f32}});
  const NoGrad no_grad;
  tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(model.decoder->config.context)));
  const Tensor logits = generator.logits(tokens).slice(0, 0, std::ssize(tokens) - 1);
  return cross_entropy(logits, from_vector(std::vector<std::int32_t>(tokens.begin() + 1, tokens.end()))).item<double>();
}

TEST(Stories, WeightsInFewerBitsMoveTheLossLittle) {
  const std::filesystem::path folder = stories_folder();
  if (!std::filesystem::exists(folder / "checkpoint_legacy.bin")) GTEST_SKIP() << "stories260K is not there";
  const std::string text = stories_text_of(folder / "expected_greedy.txt");
  const Model exact = load_model(folder / "checkpoint_legacy.bin");
  const double loss = stories_loss_of(exact, text);
  EXPECT_LT(loss, 1);
  const TemporaryFolder files;
  for (const char* format : {"F16", "Q8_0"}) {
    save_gguf_model(files / "model.gguf", *exact.decoder, exact.tokenizer.get(), &quant::format_named(format));
    const double rounded = stories_loss_of(load_model(files / "model.gguf"), text);
    RecordProperty(std::string(format) + "_change", std::to_string(rounded / loss - 1));
    std::printf("%s: %.5f nats, f32: %.5f\n", format, rounded, loss);
    EXPECT_NEAR(rounded, loss, 0.01 * loss) << format;
  }
}

TEST(Stories, GreedyTextOnTheCpu) { expect_greedy_text(kCPU, f32); }
TEST(Stories, GreedyTextOnVulkan) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  expect_greedy_text(kVulkan, f32);
}
TEST(Stories, GreedyTextWithKeysInF16) { expect_greedy_text(kCPU, f16); }

}  // namespace
}  // namespace etna::models
