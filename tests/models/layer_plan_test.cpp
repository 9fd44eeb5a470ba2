
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/error.h>
#include <etna/device/internal/fake/backend.h>
#include <etna/device/memory.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>

#include "data/temporary_folder.h"
#include "nn/on_device.h"
#include "small_models.h"

namespace etna::models {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// 40 layers of 10 MiB and 50 MiB of embeddings.
ModelSizes sizes_of_forty() {
  DecoderConfig config = small_config("llama");
  config.layers = 40;
  ModelSizes sizes{config, {}, 50 * kMiB};
  sizes.layers.assign(40, 10 * kMiB);
  return sizes;
}

TEST(LayerPlan, TakesAllThatFit) {
  const Device gpu = kVulkan;
  const LayerPlan whole = plan_layers(sizes_of_forty(), {.device = gpu, .available = 1000 * kMiB});
  EXPECT_EQ(whole.gpu_layers, 40);
  EXPECT_EQ(whole.weights, 450 * kMiB);
  // 40 layers · 2 · 2 heads · 256 positions · 16 · 2 bytes
  EXPECT_EQ(whole.cache, 40u * 2 * 2 * 256 * 16 * 2);
  EXPECT_EQ(whole.needed(), whole.all);
  EXPECT_TRUE(whole.fits());

  const LayerPlan some = plan_layers(sizes_of_forty(), {.device = gpu, .available = 300 * kMiB});
  EXPECT_GT(some.gpu_layers, 18);
  EXPECT_LT(some.gpu_layers, 25) << "50 MiB, 23 layers, a twentieth left";
  EXPECT_TRUE(some.fits());
  EXPECT_EQ(some.host_layers(), 40 - some.gpu_layers);
  EXPECT_EQ(some.weights, (50 + 10 * static_cast<std::uint64_t>(some.gpu_layers)) * kMiB);
  EXPECT_THAT(some.str(),
              AllOf(HasSubstr(" of 40 layers on vulkan:0 ("), HasSubstr(" of 300.0 MiB), "), HasSubstr(" on the CPU")));

  const LayerPlan none = plan_layers(sizes_of_forty(), {.device = gpu, .available = 40 * kMiB});
  EXPECT_EQ(none.gpu_layers, 0);
  EXPECT_EQ(none.needed(), 0u) << "neither do the embeddings go there";
}

TEST(LayerPlan, LeavesRoomForAVisionTower) {
  const auto layers = [](std::uint64_t vision, std::uint64_t available) {
    return plan_layers(sizes_of_forty(), {.device = kVulkan, .vision = vision, .available = available}).gpu_layers;
  };
  EXPECT_EQ(layers(100 * kMiB, 300 * kMiB), layers(0, 300 * kMiB) - 10);
  EXPECT_EQ(layers(100 * kMiB, 1000 * kMiB), 40);
  EXPECT_EQ(layers(400 * kMiB, 300 * kMiB), 0);
}

TEST(LayerPlan, TakesAsManyAsAsked) {
  const Device gpu = kVulkan;
  const auto asked = [&](std::int64_t layers) {
    return plan_layers(sizes_of_forty(), {.device = gpu, .gpu_layers = layers, .available = 100 * kMiB});
  };
  EXPECT_EQ(asked(0).host_layers(), 40);
  EXPECT_EQ(asked(7).gpu_layers, 7);
  EXPECT_EQ(asked(1000).gpu_layers, 40);
  EXPECT_FALSE(asked(1000).fits());
  EXPECT_THAT([&] { asked(-1); }, ThrowsMessage<Error>(HasSubstr("-1 layers on the GPU")));
  EXPECT_EQ(plan_layers(sizes_of_forty(), {.device = kCPU}).host_layers(), 0);
}

TEST(LayerPlan, LongCachesLeaveRoomForFewerLayers) {
  const Device gpu = kVulkan;
  ModelSizes sizes = sizes_of_forty();
  sizes.config.head_size = 32;  // a block of Q8_0
  const auto layers = [&](std::int64_t tokens, DType cache) {
    return plan_layers(sizes, {.device = gpu, .cache_tokens = tokens, .cache = cache, .available = 400 * kMiB})
        .gpu_layers;
  };
  EXPECT_GT(layers(64, f16), layers(65536, f16));
  EXPECT_GT(layers(65536, f16), layers(65536, f32));
  EXPECT_GT(layers(65536, u8), layers(65536, f16));
}

/// A model of four layers in a file, on a device of its own.
class SplitDecoder : public testing::Test {
 protected:
  SplitDecoder() {
    config_.layers = 4;
    const auto decoder = small_model(config_);
    save_gguf_model(path(), *decoder, nullptr);
  }
  ~SplitDecoder() override { set_strict(strict_); }

  FilePath path() const { return folder_ / "model.gguf"; }
  /// A fake device with this much memory.
  static Device fake_device(std::uint64_t memory = 256 * kMiB) {
    set_strict(false);
    return fake::add({.memory = memory});
  }
  /// Greedy texts of two prompts at once.
  std::vector<std::vector<std::int32_t>> texts(Device device, std::int64_t host_layers,
                                               std::int64_t guesses = 0) const {
    const Model model = load_model(path(), {.device = device, .host_layers = host_layers});
    EXPECT_EQ(model.decoder->host_layers(), device.is_cpu() || host_layers == 4 ? 0 : host_layers);
    Generator generator(*model.decoder,
                        {.device = device, .slots = 2, .guesses = guesses, .cache = {.tokens = 512, .dtype = f32}});
    for (std::int64_t i = 0; i < 4; ++i) {
      const Device wanted = i < model.decoder->host_layers() ? kCPU : device;
      EXPECT_EQ(generator.cache().layers()[static_cast<std::size_t>(i)].keys.device(), wanted) << i;
    }
    std::vector<std::vector<std::int32_t>> all(2);
    const GenerationOptions greedy{.max_tokens = 40, .sampling = {.temperature = 0}};
    generator.join(some_text(70, 97), greedy);
    generator.join(std::vector<std::int32_t>{5, 9, 11}, greedy);
    for (std::vector<GeneratedToken> tokens = generator.step(); !tokens.empty(); tokens = generator.step()) {
      for (const GeneratedToken& one : tokens) all[static_cast<std::size_t>(one.sequence)].push_back(one.token);
    }
    return all;
  }

  DecoderConfig config_ = small_config("llama");
  TemporaryFolder folder_;
  bool strict_ = strict();
};

TEST_F(SplitDecoder, WritesTheSameTexts) {
  const auto wanted = texts(kCPU, 0);
  EXPECT_EQ(wanted[0].size(), 40u);
  const Device device = fake_device();
  for (const std::int64_t host_layers : {0, 1, 3}) EXPECT_EQ(texts(device, host_layers), wanted) << host_layers;
  EXPECT_EQ(texts(device, 2, 3), wanted) << "with guesses";
}

TEST_F(SplitDecoder, KeepsItsFirstLayersOnTheCpu) {
  const Device device = fake_device();
  const Model model = load_model(path(), {.device = device, .host_layers = 3});
  const auto& blocks = model.decoder->blocks;
  for (std::size_t i = 0; i < 4; ++i) {
    const Device wanted = i < 3 ? kCPU : device;
    EXPECT_EQ(blocks[i].device(), wanted);
    EXPECT_EQ(blocks[i].ffn->down.packed.device(), wanted);
  }
  EXPECT_EQ(model.decoder->token_embedding.packed.device(), device);
  const NoGrad off;
  const Tensor tokens = from_vector(some_text(9, 97), {1, 9}, device);
  const Tensor logits = model.decoder->forward(tokens);
  EXPECT_EQ(logits.device(), device);
  expect_near(logits.to(kCPU), load_model(path()).decoder->forward(tokens.to(kCPU)), 1e-4, 1e-4);
  EXPECT_THAT([&] { load_model(path(), {.device = device, .host_layers = 5}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("host_layers is 5"), HasSubstr("has 4 layers"))));
  EXPECT_THROW(load_model(path(), {.device = device, .host_layers = -1}), Error);
}

TEST_F(SplitDecoder, SizesAreThoseOfTheFile) {
  const ModelSizes sizes = model_sizes(path());
  ASSERT_EQ(sizes.layers.size(), 4u);
  EXPECT_EQ(sizes.config.width, 64);
  // Query, key, value, output; gate, up, down; in F16 or F32. Norms in F32.
  const std::uint64_t matrices = 64 * 64 * 2 + 2 * 32 * 64 + 3 * 96 * 64;
  EXPECT_THAT(sizes.layers[2], ::testing::AnyOf(matrices * 2 + 2 * 64 * 4, matrices * 4 + 2 * 64 * 4));
  EXPECT_EQ(sizes.layers[0], sizes.layers[3]);
  EXPECT_GT(sizes.others, 97u * 64 * 2);
  EXPECT_THAT([&] { model_sizes(folder_ / "none.gguf"); }, ThrowsMessage<FormatError>(HasSubstr("there is no such")));
  EXPECT_THROW(model_sizes(folder_.path()), FormatError);
}

TEST_F(SplitDecoder, RunsWhereTheWholeModelDoesNotFit) {
  const ModelSizes sizes = model_sizes(path());
  // The pieces that allocators take are larger than this model, so that memory is counted by its plan.
  const Device device = fake_device(80 * kMiB);
  const LayerPlan plan =
      plan_layers(sizes, {.device = device, .cache_tokens = 512, .chunk = 64, .available = sizes.total() + 400'000});
  EXPECT_GT(plan.gpu_layers, 0);
  EXPECT_LT(plan.gpu_layers, 4) << plan.str();
  EXPECT_EQ(texts(device, plan.host_layers()), texts(kCPU, 0));
}

/// Greedy texts of two prompts of a mixture of experts.
std::vector<std::vector<std::int32_t>> mixture_texts(const FilePath& path, Device device, bool host_experts) {
  const Model model = load_model(path, {.device = device, .host_experts = host_experts});
  Generator generator(*model.decoder, {.device = device, .slots = 2, .cache = {.tokens = 512, .dtype = f32}});
  std::vector<std::vector<std::int32_t>> all;
  for (const std::int64_t length : {70, 3}) {
    generator.generate(some_text(length, 97), {.max_tokens = 24, .sampling = {.temperature = 0}},
                       [&, first = true](std::int32_t token) mutable {
                         if (std::exchange(first, false)) all.emplace_back();
                         return all.back().push_back(token), true;
                       });
  }
  return all;
}

/// Architectures whose experts have biases, a shared expert, or neither.
constexpr const char* kMixtures[] = {"qwen3moe", "gpt-oss", "glm4moe"};

TEST(HostExperts, WriteTheSameTexts) {
  const bool is_strict = strict();
  set_strict(false);
  const Device device = fake::add({.memory = 256 * kMiB});
  const TemporaryFolder folder;
  for (const char* architecture : kMixtures) {
    SCOPED_TRACE(architecture);
    const FilePath path = folder / (std::string(architecture) + ".gguf");
    save_gguf_model(path, *small_model(small_config(architecture)), nullptr);
    EXPECT_EQ(mixture_texts(path, device, true), mixture_texts(path, kCPU, false));
    const Model model = load_model(path, {.device = device, .host_experts = true});
    const auto& block = model.decoder->blocks[model.decoder->blocks.size() - 1];
    EXPECT_EQ(block.device(), device);
    EXPECT_EQ(block.ffn->router->logits.device(), device);
    EXPECT_EQ(block.ffn->gate->device(), kCPU);
    EXPECT_EQ(block.ffn->up.device(), kCPU);
    EXPECT_EQ(block.ffn->down.device(), kCPU);
    // Shared experts and dense layers are not among them.
    if (std::string_view(architecture) == "glm4moe") {
      EXPECT_EQ(block.ffn->shared->up.device(), device);
      EXPECT_EQ(model.decoder->blocks[0].ffn->up.device(), device);
    }
  }
  set_strict(is_strict);
}

TEST(HostExperts, AreNotInThePlan) {
  const TemporaryFolder folder;
  const FilePath path = folder / "model.gguf";
  save_gguf_model(path, *small_model(small_config("qwen3moe")), nullptr);
  const ModelSizes sizes = model_sizes(path);
  // Three matrices of 64 by 48 for each of 4 experts, in F16 or F32.
  const std::uint64_t elements = 3 * 64 * 48 * 4;
  ASSERT_EQ(sizes.experts.size(), 2u);
  EXPECT_THAT(sizes.experts[1], ::testing::AnyOf(elements * 2, elements * 4));
  const Device gpu = kVulkan;
  const auto plan = [&](bool host_experts) {
    return plan_layers(sizes, {.device = gpu, .host_experts = host_experts, .available = 256 * kMiB});
  };
  EXPECT_EQ(plan(false).all - plan(true).all, sizes.experts[0] + sizes.experts[1]);
}

TEST(HostExperts, WriteTheSameTextsOnAGpuInStrictMode) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  const TemporaryFolder folder;
  for (const char* architecture : kMixtures) {
    SCOPED_TRACE(architecture);
    const FilePath path = folder / (std::string(architecture) + ".gguf");
    save_gguf_model(path, *small_model(small_config(architecture)), nullptr);
    const auto wanted = mixture_texts(path, kCPU, false);
    const Transfers before = transfers();
    EXPECT_EQ(mixture_texts(path, kVulkan, true), wanted);
    EXPECT_EQ(transfers().moved_tensors, before.moved_tensors) << "rows move because they were asked to";
    EXPECT_EQ(transfers().fallbacks, before.fallbacks);
  }
}

class SplitDecoderOnGpu : public SplitDecoder {
 protected:
  void SetUp() override {
    if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  }
};

TEST_F(SplitDecoderOnGpu, WritesTheSameTextsInStrictMode) {
  const auto wanted = texts(kCPU, 0);
  const Transfers before = transfers();
  EXPECT_EQ(texts(kVulkan, 2), wanted);
  EXPECT_EQ(transfers().moved_tensors, before.moved_tensors) << "rows move because they were asked to";
  EXPECT_EQ(transfers().fallbacks, before.fallbacks);
  EXPECT_GT(transfers().d2h_bytes, before.d2h_bytes + 40 * 64 * 4);
  EXPECT_EQ(texts(kVulkan, 3, 2), wanted) << "with guesses";
}

TEST_F(SplitDecoderOnGpu, EndlessTextsDropTheirMiddleOnBothDevices) {
  const auto text = [&](Device device, std::int64_t host_layers) {
    const Model model = load_model(path(), {.device = device, .host_layers = host_layers});
    Generator generator(*model.decoder, {.device = device, .cache = {.tokens = 256, .dtype = f32}});
    std::vector<std::int32_t> tokens;
    generator.generate(some_text(200, 97), {.max_tokens = 150, .sampling = {.temperature = 0}, .endless = true},
                       [&](std::int32_t token) { return tokens.push_back(token), true; });
    return tokens;
  };
  EXPECT_EQ(text(kVulkan, 2), text(kCPU, 0));
}

}  // namespace
}  // namespace etna::models
