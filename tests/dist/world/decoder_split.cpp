#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
#include <etna/device/device.h>
#include <etna/dist/dist.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>
#include <etna/models/sampling.h>
#include <models/small_models.h>

#include "world.h"

// A decoder divided over the ranks writes the text of the whole one.
namespace etna::models {
namespace {

using distributed::rank, distributed::size;

ModelSplit own_split() { return {rank(), size()}; }

std::vector<Device> split_devices() {
  std::vector<Device> devices{kCPU};
  if (std::getenv("ETNA_TEST_VULKAN") != nullptr) devices.push_back(select_device("vulkan:0"));
  return devices;
}

std::vector<std::int32_t> split_text_of(Generator& generator, std::span<const std::int32_t> prompt, double temperature,
                                        std::int64_t tokens = 48) {
  std::vector<std::int32_t> text;
  generator.generate(prompt, {.max_tokens = tokens, .sampling = {.temperature = temperature, .seed = 11}},
                     [&](std::int32_t token) {
                       text.push_back(token);
                       return true;
                     });
  return text;
}

void expect_text_of_one(const std::filesystem::path& file, std::span<const std::int32_t> prompt, Device device,
                        std::initializer_list<double> temperatures = {0, 0.8}, std::int64_t tokens = 48) {
  const Model whole = load_model(file, {.device = device});
  const Model part = load_model(file, {.device = device, .split = own_split()});
  Generator one(*whole.decoder, {.device = device, .cache = {.dtype = f32}});
  Generator own(*part.decoder, {.device = device, .cache = {.dtype = f32}});
  const Tensor wanted = one.logits(prompt).to(kCPU), got = own.logits(prompt).to(kCPU);
  ASSERT_EQ(got.shape(), wanted.shape());
  EXPECT_LT((got - wanted).abs().max().item<double>(), 2e-2 * wanted.abs().max().item<double>());
  for (const double temperature : temperatures) {
    const std::vector<std::int32_t> expected = split_text_of(one, prompt, temperature, tokens);
    EXPECT_EQ(split_text_of(own, prompt, temperature, tokens), expected) << "temperature " << temperature;
  }
}

TEST(DecoderSplit, WritesTheTextOfOneProcess) {
  const TemporaryFolder folder;
  for (const Device device : split_devices()) {
    for (const char* architecture : {"llama", "gemma2", "qwen3", "gpt2", "phi2"}) {
      SCOPED_TRACE(std::string(architecture) + " on " + device.str());
      if (device != kCPU && std::string(architecture) != "llama" && std::string(architecture) != "gemma2") continue;
      const DecoderConfig config = small_config(architecture);
      if (size() > config.heads) continue;
      save_gguf_model(folder / "model.gguf", *small_model(config), nullptr, &quant::format_named("F32"));
      // Longer than gemma2's window.
      expect_text_of_one(folder / "model.gguf", some_text(40, config.vocabulary), device, {0, 0.8},
                         device == kCPU ? 48 : 8);
    }
  }
}

TEST(DecoderSplit, WritesTheTextOfOneProcessInBlocks) {
  const TemporaryFolder folder;
  for (const char* format : {"Q8_0", "Q4_0"}) {
    SCOPED_TRACE(format);
    DecoderConfig config = small_config("llama");
    config.heads = config.kv_heads = 4;
    config.head_size = 32;
    config.feed_forward = 160;
    fill_defaults(config);
    save_gguf_model(folder / "model.gguf", *small_model(config), nullptr, &quant::format_named(format));
    // Activations are rounded to bytes, and another order of sums may round one of them otherwise: after some tokens of
    // random weights, texts may part.
    expect_text_of_one(folder / "model.gguf", some_text(48, config.vocabulary), kCPU, {0}, 6);
  }
}

TEST(DecoderSplit, WritesTheStoryOfOneProcess) {
  const char* data = std::getenv("ETNA_DATA");
  const std::filesystem::path file =
      data == nullptr ? std::filesystem::path()
                      : std::filesystem::path(data).parent_path() / "stories260K" / "checkpoint_legacy.bin";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "stories260K is not there";
  const std::vector<std::int32_t> prompt{1};
  for (const Device device : split_devices())
    expect_text_of_one(file, prompt, device, {0, 0.8}, device == kCPU ? 48 : 8);
}

TEST(DecoderSplit, SamplesWithGuessesPenaltiesAndDraft) {
  DecoderConfig config = small_config("llama");
  config.vocabulary = 11;  // few tokens repeat themselves soon
  const auto whole = small_model(config);
  const auto part = decoder_of(config, whole->state_dict(), {.split = own_split()});
  const std::vector<std::int32_t> prompt = {3, 7, 1, 3, 7, 1, 3, 7};
  Generator one(*whole, {.cache = {.dtype = f32}});
  for (const bool draft : {false, true}) {
    Generator own(*part, {.guesses = 3, .draft = draft ? whole.get() : nullptr, .cache = {.dtype = f32}});
    for (const double temperature : {0.0, 0.7})
      EXPECT_EQ(split_text_of(own, prompt, temperature), split_text_of(one, prompt, temperature));
    EXPECT_GT(own.times().guessed_right, 0);
  }
  Generator own(*part, {.slots = 2, .cache = {.dtype = f32}});
  const GenerationOptions options{
      .max_tokens = 20, .sampling = {.temperature = 0.9, .repetition_penalty = 1.1, .seed = 3}, .logprobs = 2};
  const auto text_and_logprobs = [&](Generator& generator) {
    std::vector<GeneratedToken> all;
    generator.join(prompt, options);
    while (generator.busy())
      for (const GeneratedToken& token : generator.step()) all.push_back(token);
    return all;
  };
  const std::vector<GeneratedToken> got = text_and_logprobs(own), wanted = text_and_logprobs(one);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].token, wanted[i].token);
    EXPECT_NEAR(got[i].logprob, wanted[i].logprob, 1e-4);
  }
  const std::vector<Beam> beams = beam_search(*part, kCPU, prompt, {.width = 3, .max_tokens = 8}),
                          expected = beam_search(*whole, kCPU, prompt, {.width = 3, .max_tokens = 8});
  ASSERT_EQ(beams.size(), expected.size());
  EXPECT_EQ(beams[0].tokens, expected[0].tokens);
}

TEST(DecoderSplit, IsThatOfTheGroup) {
  const DecoderConfig config = small_config("llama");
  const auto whole = small_model(config);
  const auto other = decoder_of(config, whole->state_dict(), {.split = {1 - std::min(rank(), 1), 2}});
  const NoGrad no_grad;
  EXPECT_THROW(other->forward(zeros({1, 2}, {i64, kCPU})), Error);
}

}  // namespace
}  // namespace etna::models
