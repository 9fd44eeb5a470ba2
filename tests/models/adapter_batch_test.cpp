#include <bit>
#include <cstdlib>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>
#include <etna/tensor/quant/block_format.h>

#include "small_models.h"

// Sequences with different adapters in one batch.
namespace etna::models {
namespace {

using testing::HasSubstr;
using Texts = std::map<Generator::Id, std::vector<std::int32_t>>;

class AdapterBatch : public testing::Test {
 protected:
  /// @param format of the weights; null: f32
  std::unique_ptr<Decoder> base(const char* format = nullptr, Device device = {}) const {
    DecoderConfig config = small_config("llama");
    config.width = config.feed_forward = 256;
    config.head_size = config.rope.size = 64;
    auto model = small_model(config);
    if (format != nullptr) {
      for (const nn::NamedModule& part : model->named_modules())
        if (auto* layer = dynamic_cast<Projection*>(part.module))
          layer->freeze(quantize(layer->weight.detach(), quant::format_named(format)));
    }
    model->to(device);
    model->eval();
    return model;
  }
  /// Writes adapters that change what the model says.
  FilePath file(std::int64_t rank, bool all) const {
    const auto model = base();
    manual_seed(static_cast<std::uint64_t>(100 + rank));
    model->add_adapters(rank, 2.0 * static_cast<double>(rank), all);
    const NoGrad no_grad;
    for (const auto& p : model->named_parameters())
      if (p.name.ends_with("lora_b")) Tensor(p.tensor).copy_(randn(p.tensor.shape()) * 0.1);
    const FilePath path = folder_ / ("adapter" + std::to_string(rank) + ".gguf");
    save_adapters(path, *model);
    return path;
  }

  TemporaryFolder folder_;
};

Texts all_texts(Generator& generator) {
  Texts texts;
  while (generator.busy())
    for (const GeneratedToken& t : generator.step()) texts[t.sequence].push_back(t.token);
  return texts;
}

GenerationOptions adapter_greedy(std::int64_t adapter) {
  return {.max_tokens = 30, .sampling = {.temperature = 0}, .adapter = adapter};
}

TEST_F(AdapterBatch, EachSequenceHasItsOwn) {
  std::vector<Device> devices{kCPU};
  if (std::getenv("ETNA_TEST_VULKAN") != nullptr) devices.push_back(kVulkan);
  const FilePath files[] = {file(3, true), file(8, false)};
  for (const Device device : devices) {
    for (const char* format : {static_cast<const char*>(nullptr), "Q8_0"}) {
      if (format != nullptr && !device.is_cpu()) continue;
      const auto model = base(format, device);
      for (const FilePath& path : files) stack_adapters(path, *model);
      EXPECT_EQ(model->stacked_adapters, 2);
      const auto prompt = some_text(70, 97);
      Generator generator(*model, {.device = device, .slots = 4, .cache = {.tokens = 2048}});
      if (device.is_cpu()) generator.warm_up();
      std::map<std::int64_t, Generator::Id> ids;
      for (const std::int64_t adapter : {1, -1, 0}) ids[adapter] = generator.begin(prompt, adapter_greedy(adapter));
      Texts texts = all_texts(generator);
      EXPECT_NE(texts[ids[-1]], texts[ids[0]]);
      EXPECT_NE(texts[ids[0]], texts[ids[1]]);
      for (const std::int64_t adapter : {-1, 0, 1}) {
        const auto alone = base(format, device);
        if (adapter >= 0) load_adapters(files[adapter], *alone);
        Generator one(*alone, {.device = device});
        const Tensor wanted = one.logits(prompt).to(kCPU);
        const double difference = (generator.logits(prompt, adapter).to(kCPU) - wanted).abs().max().item();
        EXPECT_LT(difference, format == nullptr ? 1e-3 : 0.05 * wanted.abs().max().item()) << device.str() << adapter;
        if (format != nullptr) continue;  // activations are rounded for blocks: a near tie may fall otherwise
        const Generator::Id id = one.begin(prompt, adapter_greedy(-1));
        EXPECT_EQ(all_texts(one)[id], texts[ids[adapter]]) << device.str() << ", adapter " << adapter;
      }
    }
  }
}

TEST_F(AdapterBatch, OthersDoNotChangeBits) {
  const FilePath files[] = {file(3, true), file(8, false)};
  const auto model = base();
  for (const FilePath& path : files) stack_adapters(path, *model);
  const auto logprobs = [&](const std::vector<std::int64_t>& adapters) {
    Generator generator(*model, {.slots = 4, .cache = {.tokens = 2048, .reuse_prefixes = false}});
    std::vector<std::uint32_t> bits;
    Generator::Id first = -1;
    for (const std::int64_t adapter : adapters) {
      GenerationOptions options = adapter_greedy(adapter);
      options.logprobs = 0;
      const Generator::Id id = generator.begin(some_text(40, 97), options);
      if (first < 0) first = id;
    }
    while (generator.busy())
      for (const GeneratedToken& t : generator.step())
        if (t.sequence == first) bits.push_back(std::bit_cast<std::uint32_t>(t.logprob));
    return bits;
  };
  for (const std::int64_t adapter : {-1, 0, 1}) {
    const auto alone = logprobs({adapter});
    EXPECT_EQ(alone.size(), 30u);
    EXPECT_EQ(alone, logprobs({adapter, 0, -1, 1})) << adapter;
  }
}

TEST_F(AdapterBatch, RanksAreChosenOnceForAllLayers) {
  const auto model = base();
  stack_adapters(file(3, true), *model);
  const Tensor x = randn({2, 4, 256}), adapters = from_vector(std::vector<std::int32_t>{0, -1});
  AdapterMasks masks;
  const std::vector<std::int32_t> owners{0, 0, 1}, same = owners, others{0, 1};
  const Tensor there = from_vector(owners);
  const Tensor mask = masks.of(adapters, owners, there, 3);
  EXPECT_EQ(mask.to(i32).reshape({-1}).to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(mask.storage(), masks.of(adapters, same, there, 3).storage());
  EXPECT_EQ(masks.of(adapters, same, there, 2).shape(), (Shape{2, 3}));
  EXPECT_EQ(masks.of(adapters, others, from_vector(others), 3).shape(), (Shape{2, 1, 2}));
  // A call with masks of its own adds the same bits.
  const Projection& layer = *model->blocks[0].attention->query;
  AdapterMasks step;
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(equal(layer(x, {true, adapters, &step}), layer(x, {.generates = true, .adapters = adapters})));
}

TEST_F(AdapterBatch, PrefixesAreOfOneAdapter) {
  const auto model = base();
  stack_adapters(file(3, true), *model);
  const auto prompt = some_text(140, 97);
  Generator generator(*model, {.slots = 2, .cache = {.tokens = 1024}});
  const auto reused = [&](Generator& by, std::int64_t adapter) {
    const Generator::Id id = by.begin(prompt, adapter_greedy(adapter));
    all_texts(by);
    return by.reused(id);
  };
  EXPECT_EQ(reused(generator, -1), 0);
  EXPECT_EQ(reused(generator, 0), 0);
  EXPECT_EQ(reused(generator, -1), 128);
  EXPECT_EQ(reused(generator, 0), 128);
  generator.save_cache(folder_ / "cache");
  Generator again(*model, {.cache = {.tokens = 1024}});
  EXPECT_GT(again.load_cache(folder_ / "cache"), 0);
  EXPECT_EQ(reused(again, 0), 128);
  EXPECT_EQ(reused(again, -1), 128);
  // Another adapter is another model.
  const auto other = base();
  stack_adapters(file(8, true), *other);
  Generator wrong(*other, {.cache = {.tokens = 1024}});
  EXPECT_THROW(wrong.load_cache(folder_ / "cache"), FormatError);
  // Blocks of all adapters are evicted.
  for (std::int32_t i = 0; i < 8; ++i) {
    auto text = some_text(200, 97);
    text[0] = i;
    generator.begin(text, adapter_greedy(i % 2 - 1));
    all_texts(generator);
  }
  EXPECT_EQ(generator.cache().stats().in_use, 0);
  EXPECT_GT(generator.cache().stats().evictions, 0);
}

TEST_F(AdapterBatch, AnIndexThatIsNotThereIsRefused) {
  const auto model = base();
  Generator none(*model);
  const std::vector<std::int32_t> prompt{1, 2};
  const auto refusal = [&](Generator& generator, std::int64_t adapter) -> std::string {
    try {
      generator.begin(prompt, adapter_greedy(adapter));
    } catch (const Error& error) {
      EXPECT_FALSE(generator.busy());
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_THAT(refusal(none, 0), HasSubstr("adapter is 0, and the model has none"));
  stack_adapters(file(3, true), *model);
  Generator one(*model);
  EXPECT_THAT(refusal(one, 1), HasSubstr("adapter is 1; wanted -1 (none) or 0 to 0"));
  EXPECT_THAT(refusal(one, -2), HasSubstr("adapter is -2"));
  EXPECT_THROW(one.logits(prompt, 1), Error);
  EXPECT_THROW(stack_adapters(folder_ / "none.gguf", *model), FormatError);
  EXPECT_EQ(model->stacked_adapters, 1);
}

TEST_F(AdapterBatch, HiddenStatesHaveThem) {
  const FilePath path = file(3, true);
  const auto model = base(), alone = base();
  stack_adapters(path, *model);
  load_adapters(path, *alone);
  const NoGrad no_grad;
  const Tensor tokens = from_vector(some_text(20, 97), {1, 20}), both = cat({tokens, tokens}, 0);
  const Tensor hidden = model->hidden(both, from_vector(std::vector<std::int32_t>{0, -1}));
  EXPECT_LT((hidden.select(0, 0) - alone->hidden(tokens).select(0, 0)).abs().max().item(), 1e-4);
  EXPECT_LT((hidden.select(0, 1) - base()->hidden(tokens).select(0, 0)).abs().max().item(), 1e-4);
}

}  // namespace
}  // namespace etna::models
