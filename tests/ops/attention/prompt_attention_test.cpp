#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include <gmock/gmock.h>

#include <etna/tensor/internal/fusion.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>
#include <etna/tensor/ops/attention/internal/paged.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>
#include <etna/tensor/ops/reduce/reduce.h>
#include <nn/on_device.h>
#include <ops/numerics.h>
#include <ops/quantized/quantized_exact.h>
#include <runner/run_tests.h>

// Attention of prompts and of steps over a paged cache.
namespace etna {
namespace {

using numerics::values;

class PromptAttention : public OnDevice {};

struct PromptCase {
  std::int64_t heads, groups, size, steps;
  std::vector<std::int32_t> positions;  ///< of each sequence's first query
  std::int64_t width;                   ///< blocks of a sequence
};

/// Keys that no query may see are NaN: positions behind the newest query's, and blocks of nobody.
PagedCache cache_of(const PromptCase& c, const Tensor& table, DType dtype, Device device) {
  const std::int64_t blocks = std::ssize(c.positions) * c.width + 1;
  PagedCache cache = paged_cache(blocks, c.groups, c.size, {dtype, device});
  if (dtype != u8) cache.keys.fill_(std::nan("")), cache.values.fill_(std::nan(""));
  for (std::size_t b = 0; b < c.positions.size(); ++b) {
    const std::int64_t row = (c.heads + 2 * c.groups) * c.size,
                       length = std::max<std::int64_t>(0, std::min(c.positions[b] + c.steps, c.width * kCacheBlock));
    if (length == 0) continue;
    const auto i = static_cast<std::int64_t>(b);
    rotate_and_cache_((values({1, length, row}, 3 + b, f32) * 2.0).to(device), cache,
                      {table.slice(0, i, i + 1), zeros({1}, {i32, device})}, {.heads = c.heads, .kv_heads = c.groups});
  }
  return cache;
}

/// Many queries, in tiles over all keys or over each block of them apart, give what the composition of base ops gives.
TEST_P(PromptAttention, GivesWhatItsReferenceGives) {
  const Device device = GetParam();
  for (const PromptCase& c : thinned<PromptCase>({{4, 2, 32, 150, {0}, 3},
                                                  {4, 1, 64, 50, {700, 3}, 12},
                                                  {6, 2, 128, 40, {90, -20, 0}, 3},
                                                  {2, 2, 8, 16, {1}, 1},
                                                  {3, 1, 20, 33, {64}, 2},
                                                  {5, 1, 96, 70, {200}, 5},
                                                  {2, 1, 256, 20, {100, 63}, 2}})) {
    std::vector<std::int32_t> blocks(c.positions.size() * static_cast<std::size_t>(c.width));
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::int32_t>((i * 5 + 2) % blocks.size());
    if (c.width > 4) blocks[2] = -1;  // a block that was dropped
    const Tensor table = from_vector(blocks, {std::ssize(c.positions), c.width}, device);
    const CachePlaces places{table, from_vector(c.positions, {std::ssize(c.positions)}, device)};
    const Tensor q = values({std::ssize(c.positions), c.steps, c.heads, c.size}, 9, f32).to(device);
    const std::vector<DType> dtypes = {f16, f32, u8, bf16};
    for (const DType dtype : device.is_cpu() ? dtypes : thinned(dtypes)) {
      if (dtype == u8 && c.size % 32 != 0) continue;
      const PagedCache cache = cache_of(c, table, dtype, device);
      const Tensor own = q.to(dtype == u8 ? bf16 : dtype);
      for (const PagedAttentionSettings& settings : {PagedAttentionSettings{},
                                                     {.scale = 0.3, .window = 40},
                                                     {.scale = 0.5, .window = 300},
                                                     {.softcap = 5, .chunk = 60}}) {
        const auto on_cpu = [](const Tensor& x) { return x.to(kCPU); };
        Tensor wanted;
        {
          const Override composed(&Overrides::compose_ops, true);
          wanted = paged_attention(on_cpu(own).to(f32), {on_cpu(cache.keys), on_cpu(cache.values)},
                                   {on_cpu(table), on_cpu(places.positions)}, settings);
        }
        for (const bool split : {false, true}) {
          const Override scope(&Overrides::split_keys, split);
          const Tensor y = paged_attention(own, cache, places, settings);
          EXPECT_EQ(y.dtype(), own.dtype());
          // Weights are rounded to the dtype before they are multiplied, results once; of Q8_0, keys and values too.
          expect_near(y, wanted, dtype == f32 ? 2e-5 : dtype == f16 ? 4e-3 : dtype == bf16 ? 2e-2 : 4e-2);
        }
      }
    }
  }
}

/// Wide heads, and few queries of many heads that share keys. Without values, the rows of keys are values.
TEST_P(PromptAttention, OfWideRowsGivesWhatItsReferenceGives) {
  const Device device = GetParam();
  std::vector<DType> dtypes = {f16, u8, f32};
  for (const PromptCase& c : thinned<PromptCase>({{5, 1, 576, 3, {100, -2}, 2},
                                                  {20, 1, 96, 2, {130, 3}, 3},
                                                  {18, 1, 320, 20, {190, 0}, 4},
                                                  {4, 2, 320, 1, {70}, 2},
                                                  {2, 1, 800, 17, {3}, 1}})) {
    std::vector<std::int32_t> blocks(c.positions.size() * static_cast<std::size_t>(c.width));
    std::iota(blocks.rbegin(), blocks.rend(), 0);
    const Tensor table = from_vector(blocks, {std::ssize(c.positions), c.width}, device);
    const CachePlaces places{table, from_vector(c.positions, {std::ssize(c.positions)}, device)};
    const Tensor q = values({std::ssize(c.positions), c.steps, c.heads, c.size}, 9, f32).to(device);
    std::rotate(dtypes.begin(), dtypes.begin() + 1, dtypes.end());
    for (const DType dtype : device.is_cpu() ? dtypes : std::vector<DType>(1, dtypes[0])) {
      PagedCache cache = cache_of(c, table, dtype, device);
      for (const bool has_values : {true, false}) {
        if (!has_values) cache.values = Tensor();
        const PagedCache there{cache.keys.to(kCPU), has_values ? cache.values.to(kCPU) : cache.keys.to(kCPU)};
        Tensor wanted;
        {
          const Override composed(&Overrides::compose_ops, true);
          wanted = paged_attention(q.to(kCPU), there, {table.to(kCPU), places.positions.to(kCPU)}, {.scale = 0.1});
        }
        for (const bool split : {false, true}) {
          const Override scope(&Overrides::split_keys, split);
          expect_near(paged_attention(q, cache, places, {.scale = 0.1}), wanted, 2e-5);
        }
      }
    }
  }
}

/// A score that is NaN shows in its query's result, and in no other's.
TEST_P(PromptAttention, KeepsNaNVisible) {
  const Device device = GetParam();
  const Tensor table = from_vector<std::int32_t>({1, 0}, {1, 2}, device), at = zeros({1}, {i32, device});
  for (const DType dtype : {f32, f16, bf16}) {
    PagedCache cache = paged_cache(2, 1, 32, {dtype, device});
    rotate_and_cache_(values({1, 100, 4 * 32}, 3, f32).to(device), cache, {table, at}, {.heads = 2, .kv_heads = 1});
    Tensor q = values({1, 100, 2, 32}, 5, f32);
    q.select(1, 70).select(1, 1).fill_(std::nan(""));
    for (const bool split : {false, true}) {
      const Override scope(&Overrides::split_keys, split);
      const Tensor y = paged_attention(q.to(dtype).to(device), cache, {table, at}).to(f32).to(kCPU);
      EXPECT_TRUE(isnan(y.select(1, 70).select(1, 1)).all().item<bool>());
      EXPECT_EQ(isnan(y).to(f32).sum().item<double>(), 32);
    }
  }
}

TEST_P(PromptAttention, TakesQueriesInTheDtypeOfItsProducts) {
  const Device device = GetParam();
  const Tensor table = from_vector<std::int32_t>({2, 0}, {1, 2}, device), zero = zeros({1}, {i32, device});
  const Tensor qkv = values({1, 70, 4 * 32}, 3, f32).to(device);
  for (const DType dtype : {f32, f16, bf16}) {
    PagedCache cache = paged_cache(3, 1, 32, {f16, device}), other = paged_cache(3, 1, 32, {f16, device});
    const Tensor all = rotate_and_cache_(qkv, cache, {table, zero}, {.heads = 2, .kv_heads = 1});
    const Tensor q = rotate_and_cache_(qkv, other, {table, zero}, {.heads = 2, .kv_heads = 1, .dtype = dtype});
    EXPECT_EQ(q.dtype(), dtype);
    EXPECT_EQ(q.to_vector<float>(), all.to(dtype).to_vector<float>());
    EXPECT_EQ(other.keys.to_vector<float>(), cache.keys.to_vector<float>());
    const Tensor y = paged_attention(q, cache, {table, zero});
    EXPECT_EQ(y.dtype(), dtype);
    expect_near(y, paged_attention(all, cache, {table, zero}), dtype == f32 ? 1e-6 : 2e-2);
  }
  EXPECT_THROW(cached_rows(paged_cache(3, 1, 32, {f16, device}).keys, table, 5, i32), DtypeError);
}

/// A workgroup for each head of queries gives what one for all heads that share keys gives.
TEST_P(PromptAttention, MayAttendHeadByHead) {
  const Device device = GetParam();
  if (device.is_cpu()) return;
  struct Case {
    std::int64_t heads, groups, size, width;
    std::int32_t position;
  };
  for (const Case& c :
       thinned<Case>({{4, 1, 64, 2, 70}, {6, 2, 128, 4, 200}, {2, 2, 32, 9, 530}, {3, 1, 20, 1, 5}, {4, 2, 4, 1, 0}})) {
    std::vector<std::int32_t> blocks(static_cast<std::size_t>(c.width));
    std::iota(blocks.begin(), blocks.end(), 0);
    const Tensor table = from_vector(blocks, {1, c.width}, device);
    const Tensor keys = values({c.width, c.groups, kCacheBlock, c.size}, 5, f16).to(device),
                 other = values({c.width, c.groups, kCacheBlock, c.size}, 6, f16).to(device);
    const Tensor qkv = values({1, 1, (c.heads + 2 * c.groups) * c.size}, 3, f32).to(device);
    const Tensor at = from_vector<std::int32_t>({c.position}, {1}, device);
    for (const PagedAttentionSettings& settings :
         {PagedAttentionSettings{}, {.scale = 0.3, .softcap = 2, .window = 60}}) {
      const auto step = [&] {
        PagedCache cache{keys.clone(), other.clone()};
        const Tensor y =
            rotate_and_attend_(qkv, cache, {table, at}, {.heads = c.heads, .kv_heads = c.groups}, settings);
        return TensorList{
            y, cache.keys, cache.values,
            paged_attention(values({1, 1, c.heads, c.size}, 8, f32).to(device), cache, {table, at}, settings)};
      };
      const TensorList together = step();
      const Override scope(&Overrides::split_heads, true);
      const TensorList apart = step();
      for (std::size_t i : {0u, 3u}) expect_near(apart[i], together[i], 1e-5);
      for (std::size_t i : {1u, 2u}) EXPECT_EQ(apart[i].to_vector<float>(), together[i].to_vector<float>());
    }
  }
}

/// Of two sequences, the second of which has no position. The product behind the attention gets its rows in bytes.
TEST_P(PromptAttention, QuantizesTheResultOfAStepForTheNextProduct) {
  const Device device = GetParam();
  for (const std::int64_t width : {2, 9}) {
    for (const std::int64_t size : {32, 64}) {
      std::vector<std::int32_t> blocks(static_cast<std::size_t>(2 * width));
      std::iota(blocks.begin(), blocks.end(), 0);
      const CachePlaces places{from_vector(blocks, {2, width}, device),
                               from_vector<std::int32_t>({70, -1}, {2}, device)};
      const Tensor qkv = values({2, 1, (6 + 4) * size}, 3, f32).to(device);
      const QuantizedTensor weight = quantized::weight("Q8_0", 40, 6 * size).to(device);
      const auto step = [&](bool fused) {
        const Override scope(&Overrides::fuse_calls, fused);
        PagedCache cache = paged_cache(2 * width, 2, size, {f16, device});
        const Tensor y = rotate_and_attend_(qkv, cache, places, {.heads = 6, .kv_heads = 2});
        EXPECT_EQ(y.shape(), (Shape{2, 1, 6 * size}));
        return TensorList{quantized_linear(y, weight), y, cache.keys, cache.values};
      };
      const TensorList fused = step(true), plain = step(false);
      expect_near(fused[0], plain[0], 1e-4);
      for (std::size_t i : {1u, 2u, 3u}) EXPECT_EQ(fused[i].to_vector<float>(), plain[i].to_vector<float>()) << i;
      EXPECT_EQ(fused[0].select(0, 1).abs().max().item<double>(), 0.0);
    }
  }
}

/// The bytes are those of the result, and the result is what it is without them.
TEST_P(PromptAttention, QuantizesTheResultOfAStep) {
  const Device device = GetParam();
  if (device.is_cpu()) GTEST_SKIP() << "for products of a GPU";
  const auto ops = all_ops();
  const OpDef& op = **std::find_if(
      ops.begin(), ops.end(), [](const OpDef* each) { return std::string_view(each->name) == "rotate_and_attend"; });
  for (const std::int64_t size : {32, 64}) {
    PagedCache cache = paged_cache(4, 2, size, {f16, device}), other = paged_cache(4, 2, size, {f16, device});
    const CachePlaces places{from_vector<std::int32_t>({0, 1, 2, 3}, {2, 2}, device),
                             from_vector<std::int32_t>({70, -1}, {2}, device)};
    const Tensor qkv = values({2, 1, (6 + 4) * size}, 3, f32).to(device);
    ASSERT_TRUE(attention::paged::step_quantizes_gpu(places.table, size));
    ASSERT_FALSE(attention::paged::step_quantizes_gpu(zeros({2, 9}, {i32, device}), size));
    attention::paged::StepAttrs a;
    a.write.heads = 6;
    a.write.kv_heads = 2;
    a.write.size = size;
    a.write.eps = 1e-6f;
    a.attention.scale = 1 / std::sqrt(static_cast<double>(size));
    a.quantizes = true;
    const TensorList out =
        apply(op, {qkv, {}, places.table, places.positions, {}, {}, cache.keys, cache.values, {}}, Attrs::of(a));
    const Tensor y = rotate_and_attend_(qkv, other, places, {.heads = 6, .kv_heads = 2});
    EXPECT_EQ(out[0].to_vector<float>(), y.to_vector<float>());
    ASSERT_EQ(out.size(), 4u);
    EXPECT_EQ((quantized::ActivationRows{out[3], {}, true, false}.shape()), (Shape{2, 1, 6 * size}));
    const quantized::ActivationParts parts = quantized::parts_of(out[3].to(kCPU));
    const Tensor heads = y.to(kCPU).reshape({2, 6 * size / quantized::kActivationBlock, quantized::kActivationBlock});
    expect_near(parts.scales, amax(abs(heads), {-1}) / 127.0, 0, 1e-6);
    const Tensor got = parts.quants.to(f32).reshape(heads.shape()) * parts.scales.unsqueeze(-1);
    EXPECT_LE((abs(got - heads) - parts.scales.unsqueeze(-1) * 0.501).max().item<double>(), 0.0);
    EXPECT_EQ(parts.quants.select(0, 1).to(f32).abs().max().item<double>(), 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Device, PromptAttention, testing::Values(kCPU, kVulkan), device_type);

}  // namespace
}  // namespace etna
