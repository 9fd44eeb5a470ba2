#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/autograd/autograd.h>
#include <etna/data/vision.h>
#include <etna/device/kernel.h>
#include <etna/models/encoder.h>
#include <etna/models/generator.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

#include "vision_models.h"

// Models that see, of random weights, against what Hugging Face's transformers computes with them in f32: pictures that
// fit and others, which Pillow resized, several of them, and texts without any.
namespace etna::models {
namespace {

using PictureNames = std::vector<std::string>;

double vision_error(const Tensor& values, const nlohmann::json& wanted, std::size_t stride) {
  const std::vector<float> got = values.to(kCPU).flatten().to_vector<float>();
  const auto sample = wanted.get<std::vector<double>>();
  EXPECT_EQ(sample.size(), (got.size() + stride - 1) / stride);
  double error = 0;
  for (std::size_t i = 0; i < sample.size(); ++i)
    error = std::max(error, std::abs(static_cast<double>(got.at(i * stride)) - sample[i]));
  return error;
}

/// The prompt of a case, with the rows that the tower gives for its pictures.
struct CasePrompt {
  std::vector<std::int32_t> tokens;
  std::shared_ptr<PromptImages> images;
};

CasePrompt case_prompt(const VisionFixture& fixture, const VisionModel& vision, const nlohmann::json& one) {
  CasePrompt prompt{one["tokens"].get<std::vector<std::int32_t>>(), nullptr};
  if (one["images"].empty()) return prompt;
  prompt.images = std::make_shared<PromptImages>();
  prompt.images->both_ways = vision.tower.config.both_ways;
  for (const std::string& name : one["images"].get<PictureNames>())
    for (ImageRows& image : vision.rows(fixture.picture(name))) prompt.images->images.push_back(std::move(image));
  for (std::size_t i = 1; i < prompt.tokens.size(); ++i)
    if (prompt.tokens[i] == VisionFixture::kImage && prompt.tokens[i - 1] != VisionFixture::kImage)
      prompt.images->places.push_back(static_cast<std::int64_t>(i));
  return prompt;
}

class VisionOracle : public testing::TestWithParam<std::tuple<Device, std::string>> {
 protected:
  void SetUp() override {
    if (!fixture_.reads_png()) GTEST_SKIP() << "this build has no libpng";
    if (device().is_cpu()) return;
    for (const AdapterInfo& a : adapters())
      if (a.device == device() && a.rejected.empty()) return;
    GTEST_SKIP() << "no usable Vulkan device";
  }
  static Device device() { return std::get<0>(GetParam()); }
  const VisionFixture fixture_{std::get<1>(GetParam())};
};

TEST_P(VisionOracle, TowerGivesTheRowsOfTheOriginal) {
  const auto vision = load_vision(fixture_.folder, {.device = device(), .trainable = true});
  double error = 0;
  for (const nlohmann::json& one : fixture_.expected["cases"]) {
    if (one["images"].empty()) continue;
    std::vector<Tensor> rows;
    std::vector<std::vector<Tensor>> deep(vision->tower.config.deep_layers.size());
    for (const std::string& name : one["images"].get<PictureNames>()) {
      for (const ImageRows& image : vision->rows(fixture_.picture(name))) {
        rows.push_back(image.rows.to(kCPU));
        for (std::size_t i = 0; i < deep.size(); ++i) deep[i].push_back(image.deep.at(i).to(kCPU));
      }
    }
    error = std::max(error, vision_error(cat(rows, 0), one["features"], 7));
    for (std::size_t i = 0; i < deep.size(); ++i)
      error = std::max(error, vision_error(cat(deep[i], 0), one["deep" + std::to_string(i)], 7));
  }
  RecordProperty("error", std::to_string(error * 1e6) + "e-6");
  EXPECT_LT(error, 2e-5);
}

TEST_P(VisionOracle, DecoderGivesTheLogitsOfTheOriginal) {
  const auto vision = load_vision(fixture_.folder, {.device = device(), .trainable = true});
  const NoGrad no_grad;
  // Matrix units multiply f32 in parts of 16 bits.
  const bool parts = !device().is_cpu() && gpu::capabilities(device()).cooperative_matrix;
  const double bound = parts ? 1e-4 : 5e-5;
  double error = 0;
  // Chunks that would cut images; and the first layer on the CPU, the others on a GPU.
  for (const int kind : {0, 1}) {
    const bool divided = kind == 1 && !device().is_cpu();
    const Model model =
        load_model(fixture_.folder, {.device = device(), .trainable = true, .host_layers = divided ? 1 : 0});
    Generator generator(
        *model.decoder,
        {.device = device(), .chunk = kind == 1 && !divided ? 7 : 0, .cache = {.tokens = 256, .dtype = f32}});
    for (const nlohmann::json& one : fixture_.expected["cases"]) {
      const CasePrompt prompt = case_prompt(fixture_, *vision, one);
      const Tensor logits = generator.logits(prompt.tokens, -1, prompt.images.get());
      error = std::max(
          {error, vision_error(logits, one["sample"], 61), vision_error(logits.select(0, -1), one["last"], 1)});
      ASSERT_LT(error, bound) << one["name"] << " of kind " << kind;
    }
  }
  RecordProperty("error", std::to_string(error * 1e6) + "e-6");
}

/// On Vulkan, the pipelines of steps take seconds to make: one model is enough there.
class VisionSteps : public VisionOracle {};

TEST_P(VisionSteps, TowerIsCapturedAndTrained) {
  const auto vision = load_vision(fixture_.folder, {.device = device(), .trainable = true});
  const VisionTower& tower = vision->tower;
  const auto size = 3 * tower.config.patch_size * tower.config.patch_size;
  const bool area = tower.config.fit == PictureFit::area;
  const std::int64_t lines = area ? 4 : tower.config.patches_per_side(), columns = area ? 10 : lines;
  const auto call = [&](const Tensor& patches) {
    const VisionTower::Output output = tower.forward(patches, lines);
    TensorList all{output.rows};
    all.insert(all.end(), output.deep.begin(), output.deep.end());
    return cat(all, 0);
  };
  auto captured = capture(std::function<Tensor(const Tensor&)>(call), {.device = device(), .name = "tower"});
  for (int turn = 0; turn < 3; ++turn) {
    const NoGrad no_grad;
    const Tensor patches = rand({1, lines * columns, size}).to(device());
    EXPECT_TRUE(equal(captured(patches), call(patches))) << turn;
  }
  if (!device().is_cpu()) return;
  const Tensor patches = rand({1, lines * columns, size});
  square(call(patches)).sum().backward();
  for (const nn::NamedTensor& parameter : tower.named_parameters())
    EXPECT_GT(abs(parameter.tensor.grad()).max().item<double>(), 0) << parameter.name;
}

TEST_P(VisionSteps, GiveTheTextOfTheOriginal) {
  const auto vision = load_vision(fixture_.folder, {.device = device(), .trainable = true});
  const Model model = load_model(fixture_.folder, {.device = device(), .trainable = true});
  Generator plain(*model.decoder, {.device = device(), .slots = 2, .chunk = 7, .cache = {.tokens = 512, .dtype = f32}});
  Generator guessing(*model.decoder, {.device = device(), .guesses = 2, .cache = {.tokens = 512, .dtype = f32}});
  for (const nlohmann::json& one : fixture_.expected["cases"]) {
    const auto wanted = one["greedy"].get<std::vector<std::int32_t>>();
    if (wanted.empty() || (!device().is_cpu() && one["name"] != "two")) continue;
    const CasePrompt prompt = case_prompt(fixture_, *vision, one);
    const GenerationOptions options{
        .max_tokens = std::ssize(wanted), .sampling = {.temperature = 0}, .images = prompt.images};
    // Two at once, the second read between the steps of the first.
    std::map<Generator::Id, std::vector<std::int32_t>> texts;
    texts[plain.join(prompt.tokens, options)];
    if (device().is_cpu()) texts[plain.begin(prompt.tokens, options)];
    while (plain.busy())
      for (const GeneratedToken& token : plain.step()) texts[token.sequence].push_back(token.token);
    for (const auto& [id, text] : texts) EXPECT_EQ(text, wanted) << one["name"];
    if (!device().is_cpu()) continue;
    std::vector<std::int32_t> guessed;
    guessing.generate(prompt.tokens, options, [&](std::int32_t token) {
      guessed.push_back(token);
      return true;
    });
    EXPECT_EQ(guessed, wanted) << one["name"];
  }
}

std::string vision_case(const testing::TestParamInfo<std::tuple<Device, std::string>>& info) {
  return std::get<1>(info.param) + (std::get<0>(info.param).is_cpu() ? "_cpu" : "_vulkan");
}
const auto kSeeing = testing::Values("gemma3", "smolvlm", "qwen3_vl", "qwen3_vl_moe");
INSTANTIATE_TEST_SUITE_P(Models, VisionOracle, testing::Combine(testing::Values(kCPU, kVulkan), kSeeing), vision_case);
INSTANTIATE_TEST_SUITE_P(Cpu, VisionSteps, testing::Combine(testing::Values(kCPU), kSeeing), vision_case);
INSTANTIATE_TEST_SUITE_P(Vulkan, VisionSteps, testing::Combine(testing::Values(kVulkan), testing::Values("qwen3_vl")),
                         vision_case);

}  // namespace
}  // namespace etna::models
