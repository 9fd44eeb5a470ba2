#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/autograd/autograd.h>
#include <etna/models/generator.h>
#include <etna/models/internal/cache_node.h>
#include <etna/models/internal/latent_prompts.h>
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

/// Chunks that attend to the short rows of this design, and of which a block attends to keys and values of all heads.
constexpr std::int64_t kShort = 7, kLong = 80;

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
  for (const std::int64_t chunk : tried<std::int64_t>({kLong, kShort})) {
    EXPECT_LT(difference_from_whole(*model, GetParam(), GetParam().is_cpu() ? f16 : f32, chunk), 0.05) << chunk;
    EXPECT_LT(difference_from_whole(*model, GetParam(), u8, chunk), 0.5) << chunk;
  }
}

TEST(LatentCache, ManyQueriesPayForKeysAndValuesOfAllHeads) {
  DecoderConfig config = latent_design();
  EXPECT_EQ(expanded_rows(config, kShort), 0);
  EXPECT_EQ(expanded_rows(config, kLong), kCacheBlock);
  config.latent = {.size = 512, .query_size = 0, .value_size = 128};  // DeepSeek-V2-Lite's heads
  config.head_size = 192;
  config.rope.size = 64;
  EXPECT_EQ(expanded_rows(config, 2047), 31 * kCacheBlock);
  EXPECT_EQ(expanded_latent_bytes(config, 64), 64u * (3 * 192 - 64 + 128) * 4 * 4);  // all four heads
  EXPECT_EQ(expanded_latent_bytes(config, 100'000), static_cast<std::uint64_t>(kLatentBytes));
  EXPECT_EQ(expanded_latent_bytes(config, 1'000'000), 1'000'000u * (3 * 192 - 64 + 128) * 4);  // one
  config.latent.size = 160;  // short rows are cheaper, however many queries there are
  EXPECT_EQ(expanded_rows(config, 1 << 20), 0);
  config.latent.size = 0;
  EXPECT_EQ(expanded_rows(config, 1 << 20), 0);
}

/// Where they are many, heads take turns. What is behind the positions in a block changes nothing, even if it is NaN.
TEST_P(LatentAttention, HeadsTakeTurnsWithTheMemory) {
  const auto attends = [](Decoder& model, const ProjectionMode& mode) {
    const NoGrad no_grad;
    manual_seed(3);
    const LatentProjections& latent = *model.blocks[0].attention->latent;
    const Tensor positions = from_vector(std::vector<std::int32_t>{70, -1}, GetParam());
    Tensor rows = randn({3, 1, kCacheBlock, kWholeBlocks + 8}).to(GetParam());
    rows.select(0, 0).slice(1, 20, kCacheBlock).fill_(std::nan(""));
    const PagedCache cached{rows, {}};
    const CachePlaces places{from_vector(std::vector<std::int32_t>{2, 0, -1, -1}, {2, 2}, GetParam()), positions};
    const Tensor query = randn({2, 14, 4, 16}).to(GetParam());
    const auto by = [&](std::int64_t bytes) {
      return latent.attend_expanded(query, cached, places, {.scale = 0.3}, mode, bytes);
    };
    const Tensor all = by(kLatentBytes);
    EXPECT_EQ(all.shape(), (Shape{2, 14, 4 * 12}));
    EXPECT_GT(min(abs(all.select(0, 0))).item<double>(), 0);
    EXPECT_EQ(max(abs(all.select(0, 1))).item<double>(), 0);  // it has no blocks
    for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{2} * 4 * 64 * 52 * 2 * 4})
      EXPECT_LT(max(abs(by(bytes) - all)).item<double>(), 2e-5) << bytes;
  };
  const auto model = small_model(latent_design());
  model->to(GetParam());
  Projection& up = model->blocks[0].attention->latent->up;
  attends(*model, {.generates = true});
  up.stack_adapter(0, randn({3, up.in}) * 0.2, randn({up.out, 3}) * 0.2, 1.5);
  up.stack_adapter(1, randn({2, up.in}) * 0.2, randn({up.out, 2}) * 0.2, 1.5);
  attends(*model, {.generates = true, .adapters = from_vector(std::vector<std::int32_t>{1, -1}, GetParam())});
  if (!GetParam().is_cpu()) return;
  up.set_adapter(randn({3, up.in}) * 0.2, randn({up.out, 3}) * 0.2, 0.5);
  up.set_magnitudes(rand({up.out}) + 0.5);
  attends(*model, {.generates = true});
}

/// The matrix of keys and values in blocks, of which keys take other ones. Products round what is multiplied.
TEST_P(LatentAttention, TakesMatricesInBlocks) {
  for (const auto& [format, most] : {std::pair{"F32", 2e-4}, {"F16", 0.25}, {"BF16", 0.25}, {"Q8_0", 0.6}}) {
    if (!GetParam().is_cpu() && std::string(format) != "Q8_0") continue;
    const auto model = small_model(latent_design(64));
    freeze_as(*model, format);
    for (const std::int64_t chunk : {kShort, kLong})
      EXPECT_LT(difference_from_whole(*model, kCPU, f32, chunk), most) << format << " " << chunk;
    if (GetParam().is_cpu()) continue;
    model->to(GetParam());  // and what was made of the matrix with it
    for (const std::int64_t chunk : {kShort, kLong})
      EXPECT_LT(difference_from_whole(*model, GetParam(), f32, chunk), most) << format << " " << chunk;
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
    for (const std::int64_t chunk : {kShort, kLong})
      EXPECT_LT(difference_from_whole(*model, GetParam(), f32, chunk), 5e-4) << magnitudes << " " << chunk;
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
    for (const std::int64_t chunk : tried<std::int64_t>({kLong, kShort}))
      EXPECT_LT(difference_from_whole(*model, GetParam(), f32, chunk, adapter), 5e-4) << adapter << " " << chunk;
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
  for (const std::int64_t chunk : {kCacheBlock, std::int64_t{2048}}) {
    Generator generator(*model, {.device = GetParam(), .chunk = chunk});
    const std::vector<float> first = logprobs(generator);
    EXPECT_EQ(first.size(), 12u);
    EXPECT_EQ(logprobs(generator), first) << chunk;
    EXPECT_EQ(generator.cache().stats().reused_tokens, 2 * kCacheBlock);
  }
}

/// Chunks behind others, and short ones, next to other sequences.
TEST_P(LatentAttention, PromptsReadTogetherGiveTheTextsOfEachAlone) {
  const auto model = small_model(latent_design());
  model->to(GetParam());
  const GenerationOptions options{.max_tokens = 6, .sampling = {.temperature = 0}};
  std::vector<Tokens> prompts;
  for (const std::int64_t length : tried<std::int64_t>({3, 12, 13, 64, 65, 100, 130, 200}, 3))
    prompts.push_back(some_text(length, 97));
  for (const DType dtype : tried<DType>({u8, f16, f32}, 3)) {
    Generator generator(*model, {.device = GetParam(),
                                 .slots = std::ssize(prompts),
                                 .chunk = 70,
                                 .cache = {.tokens = 2048, .dtype = dtype, .reuse_prefixes = false}});
    std::map<Generator::Id, Tokens> together;
    for (const Tokens& prompt : prompts) together[generator.begin(prompt, options)];
    while (generator.busy())
      for (const GeneratedToken& token : generator.step()) together[token.sequence].push_back(token.token);
    auto text = together.begin();
    for (const Tokens& prompt : prompts)
      EXPECT_EQ((text++)->second, greedy(generator, prompt, 6)) << prompt.size() << " " << name(dtype);
  }
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
