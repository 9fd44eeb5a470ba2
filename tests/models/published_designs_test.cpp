#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/autograd/autograd.h>
#include <etna/device/device.h>
#include <etna/models/generator.h>
#include <etna/models/internal/architecture.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "small_models.h"

// Small models of random weights, as their families' own code computes them: each folder of ETNA_MODELS holds
// config.json, model.safetensors and expected.json with tokens, logits and the greedy text behind the tokens.
namespace etna::models {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// What a design's own code computes.
struct Expected {
  std::string name;
  FilePath folder;
  std::vector<std::int32_t> tokens, greedy;
  std::vector<double> last, sample;  ///< logits of the last position, and every stride-th of all
  std::int64_t stride = 1;
  double mean = 0, square = 0;
};

Json json_in(const fs::path& file) {
  std::ifstream in(file);
  return Json::parse(in);
}

/// The decoders that run here; empty where ETNA_MODELS is not set.
std::vector<Expected> published_designs() {
  std::vector<Expected> list;
  const char* folder = std::getenv("ETNA_MODELS");
  if (folder == nullptr) return list;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string type = json_in(entry.path() / "config.json").at("model_type");
    const Json json = json_in(entry.path() / "expected.json");
    if (!json.contains("greedy") || find_architecture_hugging_face(type) == nullptr) continue;
    list.push_back({entry.path().filename().string(), entry.path(), json.at("tokens"), json.at("greedy"),
                    json.at("last"), json.at("sample"), json.at("stride"), json.at("mean"), json.at("square")});
  }
  std::sort(list.begin(), list.end(), [](const Expected& a, const Expected& b) { return a.name < b.name; });
  return list;
}

/// The largest difference of logits from those expected. @param logits [T, vocabulary], or of the last position only
double largest_difference(const Expected& expected, const Tensor& logits) {
  const Tensor here = logits.detach().to(kCPU, f32).contiguous();
  const auto values = here.flatten().to_vector<double>();
  const std::size_t size = expected.last.size(), last = values.size() - size;
  double worst = 0;
  for (std::size_t i = 0; i < size; ++i) worst = std::max(worst, std::abs(values[last + i] - expected.last[i]));
  if (here.size(0) == 1) return worst;
  const auto stride = static_cast<std::size_t>(expected.stride);
  for (std::size_t i = 0; i < expected.sample.size(); ++i)
    worst = std::max(worst, std::abs(values[i * stride] - expected.sample[i]));
  worst = std::max(worst, std::abs(here.mean().item<double>() - expected.mean));
  return std::max(worst, std::abs((here * here).mean().item<double>() - expected.square));
}

std::vector<std::int32_t> greedy_text(Generator& generator, const Expected& expected) {
  std::vector<std::int32_t> text;
  generator.generate(expected.tokens, {.max_tokens = std::ssize(expected.greedy), .sampling = {.temperature = 0}},
                     [&](std::int32_t token) {
                       text.push_back(token);
                       return true;
                     });
  return text;
}

/// Texts of several prompts, the tokens from the first, second ... on, generated together or one after the other.
std::vector<std::vector<std::int32_t>> texts_of(const Decoder& model, Device device, const Expected& expected,
                                                std::int64_t slots) {
  constexpr std::size_t kTexts = 8;
  Generator generator(model, {.device = device, .slots = slots, .cache = {.tokens = 1024, .dtype = f32}});
  std::vector<std::vector<std::int32_t>> texts(kTexts);
  for (std::size_t first = 0; first < kTexts; first += static_cast<std::size_t>(slots)) {
    std::vector<Generator::Id> ids;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(slots); ++i) {
      const std::vector<std::int32_t> prompt(expected.tokens.begin() + static_cast<std::ptrdiff_t>(i),
                                             expected.tokens.end());
      ids.push_back(generator.join(prompt, {.max_tokens = 6, .sampling = {.temperature = 0}}));
    }
    while (generator.busy()) {
      for (const GeneratedToken& token : generator.step()) {
        const auto found = std::find(ids.begin(), ids.end(), token.sequence);
        texts[first + static_cast<std::size_t>(found - ids.begin())].push_back(token.token);
      }
    }
  }
  return texts;
}

/// Calls check() for each design, and reports the time that all took.
template <typename Check>
void for_each_design(Check check) {
  const std::vector<Expected> designs = published_designs();
  if (designs.empty()) GTEST_SKIP() << "set ETNA_MODELS to a folder with models and what their code computes";
  const NoGrad no_grad;
  for (const Expected& expected : designs) {
    SCOPED_TRACE(expected.name);
    ASSERT_NO_THROW(check(expected));
  }
}

/// With the file's weights where their products are exact, as those that are expected; else decoded to f32, since a
/// mixture may choose another expert after rounding.
Model loaded(const FilePath& path, Device device) {
  return load_model(path, {.device = device, .trainable = !multiplies_exactly(device, "BF16")});
}

void expect_logits_and_text(Device device, const Model& model, const Expected& expected) {
  Generator generator(*model.decoder, {.device = device, .cache = {.dtype = f32}});
  EXPECT_LT(largest_difference(expected, generator.logits(expected.tokens)), 1e-3) << model.source;
  EXPECT_EQ(greedy_text(generator, expected), expected.greedy) << model.source;
}

TEST(PublishedDesigns, TrainableWeightsGiveTheLogitsOfTheirOwnCode) {
  for_each_design([](const Expected& expected) {
    const Model model = load_model(expected.folder, {.trainable = true});
    std::vector<std::int32_t> text = expected.tokens;
    text.insert(text.end(), expected.greedy.begin(), expected.greedy.end());
    const auto size = static_cast<std::int64_t>(expected.tokens.size());
    const Tensor logits = model.decoder->forward(from_vector(text, {1, std::ssize(text)})).select(0, 0);
    const double difference = largest_difference(expected, logits.slice(0, 0, size));
    std::printf("%-18s %.1e\n", expected.name.c_str(), difference);
    EXPECT_LT(difference, 1e-3);
    const auto next = argmax(logits.slice(0, size - 1, std::ssize(text) - 1), -1).to(i32).to_vector<std::int32_t>();
    EXPECT_EQ(next, expected.greedy);
  });
}

TEST(PublishedDesigns, GenerateTheTextsOfTheirOwnCode) {
  for_each_design(
      [](const Expected& expected) { expect_logits_and_text(kCPU, loaded(expected.folder, kCPU), expected); });
}

TEST(PublishedDesigns, GenerateTheSameFromGguf) {
  const TemporaryFolder folder;
  for_each_design([&](const Expected& expected) {
    const Model model = loaded(expected.folder, kCPU);
    try {
      save_gguf_model(folder / "model.gguf", *model.decoder, nullptr);
    } catch (const FormatError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("a GGUF file cannot hold the model"));
      std::printf("%-18s %s\n", expected.name.c_str(), error.what());
      return;
    }
    expect_logits_and_text(kCPU, loaded(folder / "model.gguf", kCPU), expected);
  });
}

TEST(PublishedDesigns, EightSequencesAtOnceEqualOneByOne) {
  for_each_design([](const Expected& expected) {
    const Model model = load_model(expected.folder);
    EXPECT_EQ(texts_of(*model.decoder, kCPU, expected, 8), texts_of(*model.decoder, kCPU, expected, 1));
  });
}

TEST(PublishedDesigns, GenerateTheTextsOfTheirOwnCodeOnVulkan) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  for_each_design(
      [](const Expected& expected) { expect_logits_and_text(kVulkan, loaded(expected.folder, kVulkan), expected); });
}

/// Of designs whose layers are computed otherwise where they are read from GGUF, or whose tensors are put together.
TEST(PublishedDesigns, GenerateTheSameFromGgufOnVulkan) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  const TemporaryFolder folder;
  int tried = 0;
  for_each_design([&](const Expected& expected) {
    const Model model = load_model(expected.folder);
    const DecoderConfig config = gguf_config(model.decoder->config);
    if (!config.state.tiled && config.latent.size == 0) return;
    save_gguf_model(folder / "model.gguf", *model.decoder, nullptr);
    expect_logits_and_text(kVulkan, loaded(folder / "model.gguf", kVulkan), expected);
    ++tried;
  });
  EXPECT_EQ(tried == 0, testing::Test::IsSkipped());
}

}  // namespace
}  // namespace etna::models
