#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/models/internal/cache_node.h>
#include <etna/models/sampling.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/quant/block_format.h>
#include <nn/on_device.h>

#include "small_models.h"

// Latent attention, whose cache keeps one row of a position for all heads.
namespace etna::models {
namespace {

using Tokens = std::vector<std::int32_t>;

/// Latent elements that fill whole blocks of Q8_0 with the rotated ones.
constexpr std::int64_t kWholeBlocks = 56;

/// One layer, without experts. @param size of latent rows, besides 8 rotated elements
DecoderConfig latent_design(std::int64_t size = kWholeBlocks) {
  DecoderConfig config = small_config("deepseek3");
  config.layers = 1;
  config.each_layer.resize(1);
  config.latent.size = size;
  return config;
}

Tokens greedy(Generator& generator, const Tokens& prompt, std::int64_t count, bool endless = false) {
  Tokens text;
  generator.generate(prompt, {.max_tokens = count, .sampling = {.temperature = 0}, .endless = endless},
                     [&](std::int32_t token) {
                       text.push_back(token);
                       return true;
                     });
  return text;
}

/// The largest difference of logits that a cache gives, by chunks, from those of the text without one.
double difference_from_whole(const Decoder& model, Device device, DType dtype, std::int64_t chunk,
                             std::int64_t adapter = -1) {
  const NoGrad no_grad;
  const Tokens text = some_text(90, 97);
  Generator generator(model, {.device = device, .chunk = chunk, .cache = {.dtype = dtype}});
  const Tensor tokens = from_vector(text, {1, std::ssize(text)}, device);
  const Tensor chosen = adapter < 0 ? Tensor() : full({1}, static_cast<double>(adapter), {i32, device});
  const Tensor whole = model.logits_of(model.hidden(tokens, chosen)).select(0, 0);
  return max(abs(generator.logits(text, adapter) - whole)).item<double>();
}

void freeze_as(Decoder& model, const char* format) {
  for (const DecoderBlock& block : model.blocks) {
    Projection& up = block.attention->latent->up;
    up.freeze(quantize(up.weight.detach(), quant::format_named(format)));
  }
}

class LatentAttention : public OnDevice {};

TEST_P(LatentAttention, CachesOneShortRow) {
  const DecoderConfig config = latent_design();
  for (const auto& [dtype, bytes] : {std::pair{f32, 256}, {f16, 128}, {bf16, 128}, {u8, 68}}) {
    KvCache cache(config, GetParam(), {.tokens = 3 * kCacheBlock, .dtype = dtype});
    EXPECT_EQ(cache.layers()[0].keys.shape(), (Shape{3, 1, kCacheBlock, dtype == u8 ? 68 : 64}));
    EXPECT_FALSE(cache.layers()[0].values.defined());
    EXPECT_EQ(cache_block_bytes(config, 0, dtype), bytes * kCacheBlock);
    EXPECT_EQ(cache.stats().bytes, static_cast<std::uint64_t>(3 * kCacheBlock * bytes));
  }
  EXPECT_THROW(KvCache(latent_design(20), GetParam(), {.dtype = u8}), ShapeError);
}

/// DeepSeek-V3: 576 elements of a position and a layer, for 128 heads whose keys have 192.
TEST(LatentCache, OfTheLargeModelIsSmall) {
  DecoderConfig config = latent_design(512);
  config.heads = config.kv_heads = 128;
  config.head_size = 192;
  config.rope.size = 64;
  EXPECT_EQ(cache_block_bytes(config, 0, f16), 576 * 2 * kCacheBlock);
}

TEST_P(LatentAttention, GivesTheLogitsOfTheWholeText) {
  const auto model = small_model(latent_design());
  model->to(GetParam());
  for (const std::int64_t chunk : tried<std::int64_t>({7, 40, 512}, 3))
    EXPECT_LT(difference_from_whole(*model, GetParam(), f32, chunk), 2e-4);
  EXPECT_LT(difference_from_whole(*model, GetParam(), GetParam().is_cpu() ? f16 : f32, 7), 0.05);
  EXPECT_LT(difference_from_whole(*model, GetParam(), u8, 7), 0.5);
}

/// The matrix of keys and values in blocks, of which keys take other ones. Products round what is multiplied.
TEST_P(LatentAttention, TakesMatricesInBlocks) {
  for (const auto& [format, most] : {std::pair{"F32", 2e-4}, {"F16", 0.25}, {"BF16", 0.25}, {"Q8_0", 0.6}}) {
    if (!GetParam().is_cpu() && std::string(format) != "Q8_0") continue;
    const auto model = small_model(latent_design(64));
    freeze_as(*model, format);
    EXPECT_LT(difference_from_whole(*model, kCPU, f32, 7), most) << format;
    if (GetParam().is_cpu()) continue;
    model->to(GetParam());  // and what was made of the matrix with it
    EXPECT_LT(difference_from_whole(*model, GetParam(), f32, 7), most) << format;
  }
}

TEST(LatentCache, FollowsWeightsThatChange) {
  const auto model = small_model(latent_design());
  Generator generator(*model, {.cache = {.dtype = f32, .reuse_prefixes = false}});
  const Tokens prompt = some_text(10, 97), before = greedy(generator, prompt, 20);
  {
    const NoGrad no_grad;
    model->blocks[0].attention->latent->up.weight.mul_(-1.0);
  }
  const Tokens after = greedy(generator, prompt, 20);
  EXPECT_NE(before, after);
  EXPECT_LT(difference_from_whole(*model, kCPU, f32, 7), 2e-4);
  freeze_as(*model, "F32");
  EXPECT_EQ(greedy(generator, prompt, 20), after);
}

/// Adapters beside the matrix of keys and values: one that is trained, with and without magnitudes, and stacked ones.
TEST_P(LatentAttention, TakesAdapters) {
  for (const bool magnitudes : GetParam().is_cpu() ? std::vector<bool>{true, false} : std::vector<bool>{}) {
    const auto model = small_model(latent_design());
    model->to(GetParam());
    model->add_adapters({.rank = 3, .alpha = 6, .magnitudes = magnitudes, .targets = {"attention"}});
    model->eval();
    const NoGrad no_grad;
    for (const auto& p : model->named_parameters())
      if (p.name.ends_with("lora_b")) Tensor(p.tensor).copy_(randn(p.tensor.shape()) * 0.2);
    EXPECT_LT(difference_from_whole(*model, GetParam(), f32, 7), 5e-4) << magnitudes;
  }
  const auto model = small_model(latent_design());
  model->to(GetParam());
  for (std::int64_t adapter = 0; adapter < 2; ++adapter) {
    for (const DecoderBlock& block : model->blocks) {
      Projection& up = block.attention->latent->up;
      up.stack_adapter(adapter, randn({2 + adapter, up.in}) * 0.2, randn({up.out, 2 + adapter}) * 0.2, 1.5);
    }
  }
  model->stacked_adapters = 2;
  for (const std::int64_t adapter : tried<std::int64_t>({1, 0, -1}, 3))
    EXPECT_LT(difference_from_whole(*model, GetParam(), f32, 7, adapter), 5e-4) << adapter;
}

/// The same bits, whether a prompt's beginning was read or found.
TEST_P(LatentAttention, FoundPrefixesChangeNoBits) {
  const auto model = small_model(latent_design());
  model->to(GetParam());
  const Tokens prompt = some_text(2 * kCacheBlock + 9, 97);
  const auto logprobs = [&](Generator& generator) {
    std::vector<float> all;
    generator.begin(prompt, {.max_tokens = 12, .sampling = {.temperature = 0}, .logprobs = 2});
    while (generator.busy())
      for (const GeneratedToken& token : generator.step()) all.push_back(static_cast<float>(token.logprob));
    return all;
  };
  Generator generator(*model, {.device = GetParam(), .chunk = kCacheBlock});
  const std::vector<float> first = logprobs(generator);
  EXPECT_EQ(first.size(), 12u);
  EXPECT_EQ(logprobs(generator), first);
  EXPECT_EQ(generator.cache().stats().reused_tokens, 2 * kCacheBlock);
}

TEST_P(LatentAttention, PrefixesAreKeptInFiles) {
  const TemporaryFolder folder;
  const auto model = small_model(latent_design());
  model->to(GetParam());
  const Tokens prompt = some_text(kCacheBlock + 9, 97);
  const GeneratorOptions options{.device = GetParam(), .chunk = kCacheBlock};
  Generator generator(*model, options), other(*model, options);
  const Tokens text = greedy(generator, prompt, 20);
  generator.save_cache(folder / "cache.safetensors");
  EXPECT_EQ(other.load_cache(folder / "cache.safetensors"), 1);
  EXPECT_EQ(greedy(other, prompt, 20), text);
  EXPECT_EQ(other.cache().stats().reused_tokens, kCacheBlock);
}

TEST_P(LatentAttention, BeamsAndEndlessTextsCopyAndTurnRows) {
  DecoderConfig config = latent_design();
  config.context = 2 * kCacheBlock;
  const auto model = small_model(config);
  model->to(GetParam());
  const Tokens prompt = some_text(5, 97);
  Generator generator(*model, {.device = GetParam(), .cache = {.dtype = f32}});
  const std::vector<Beam> one = beam_search(*model, GetParam(), prompt, {.width = 1, .max_tokens = 12});
  EXPECT_EQ(one[0].tokens, greedy(generator, prompt, 12));
  EXPECT_GE(beam_search(*model, GetParam(), prompt, {.width = 4, .max_tokens = 12})[0].score, one[0].score - 1e-6);
  EXPECT_EQ(std::ssize(greedy(generator, prompt, 200, true)), 200);
}

/// Distances alone count, so that a turned row gives what it would have given at its new position.
TEST(LatentCache, DroppingTheMiddleKeepsDistances) {
  const DecoderConfig config = latent_design();  // rows of later layers would know what was dropped
  const auto model = small_model(config);
  const NoGrad no_grad;
  KvCache cache(config, kCPU, {.dtype = f32});
  const Tokens text = some_text(4 * kCacheBlock, 97);
  const KvCache::Id id = cache.start(text).id;
  cache.reserve(id, std::ssize(text));
  const auto places = [&](std::int32_t position) {
    return CachePlaces{from_vector(cache.row(id, 4), {1, 4}), from_vector(std::vector<std::int32_t>{position})};
  };
  const auto read = [&](const Tokens& tokens, std::int32_t position) {
    return model->extend(from_vector(tokens, {1, std::ssize(tokens)}), {&cache.layers(), places(position)});
  };
  read(Tokens(text.begin(), text.end() - 1), 0);
  EXPECT_EQ(cache.drop_middle(id, 4 * kCacheBlock - 1, 0, kCacheBlock), kCacheBlock);
  const Tensor kept = read({5}, 3 * kCacheBlock - 1);
  const KvCache::Id again = cache.start(text).id;
  EXPECT_NE(id, again);
  KvCache fresh(config, kCPU, {.dtype = f32});
  const KvCache::Id own = fresh.start(text).id;
  fresh.reserve(own, 3 * kCacheBlock);
  Tokens rest(text.begin() + kCacheBlock, text.end() - 1);
  rest.push_back(5);
  const Tensor wanted = model->extend(from_vector(rest, {1, std::ssize(rest)}),
                                      {&fresh.layers(), {from_vector(fresh.row(own, 4), {1, 4}), zeros({1}, {i32})}});
  EXPECT_LT(max(abs(kept.select(1, 0) - wanted.select(1, std::ssize(rest) - 1))).item<double>(), 1e-4);
}

ETNA_ON_EVERY_DEVICE(LatentAttention);

}  // namespace
}  // namespace etna::models
