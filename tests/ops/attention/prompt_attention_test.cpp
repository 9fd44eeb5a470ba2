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

// The attention of a prompt gives what paged_attention gives.
namespace etna {
namespace {

using numerics::values;

class PromptAttention : public OnDevice {};

TEST_P(PromptAttention, GivesWhatPagedAttentionGives) {
  const Device device = GetParam();
  constexpr std::int64_t kHeads = 4, kGroups = 2, kSize = 32;
  struct Case {
    std::int64_t positions, past;
  };
  // On a GPU, one workgroup attends to up to 512 positions; of more, parts are merged.
  for (const auto& [positions, past] : {Case{150, 0}, {150, 70}, {700, 695}}) {
    std::vector<std::int32_t> blocks;
    for (std::int64_t b = 0; b * kCacheBlock < positions; ++b)
      blocks.push_back(static_cast<std::int32_t>((b * 5 + 2) % 12));
    const Tensor table = from_vector(blocks, {1, std::ssize(blocks)}, device);
    const std::vector<DType> dtypes = {f16, f32, u8, bf16};
    for (const DType dtype : device.is_cpu() ? dtypes : thinned(dtypes)) {
      PagedCache cache = paged_cache(12, kGroups, kSize, {dtype, device});
      const Tensor qkv = values({1, positions, (kHeads + 2 * kGroups) * kSize}, 3, f32).to(device);
      const CachePlaces begin{table, from_vector(std::vector<std::int32_t>{0}, {1}, device)};
      const Tensor q = rotate_and_cache_(qkv, cache, begin, {.heads = kHeads, .kv_heads = kGroups});
      for (const PagedAttentionSettings& settings :
           {PagedAttentionSettings{}, {.scale = 0.3, .window = 40}, {.scale = 2, .window = 300}, {.softcap = 5}}) {
        const Tensor part = q.slice(1, past, positions);
        const Tensor at = from_vector(std::vector<std::int32_t>{static_cast<std::int32_t>(past)}, {1}, device);
        expect_near(prompt_attention(part, cache, table, positions, settings),
                    paged_attention(part, cache, {table, at}, settings), 1e-5);
      }
    }
  }
}

TEST_P(PromptAttention, RefusesMoreQueriesThanPositions) {
  const Device device = GetParam();
  const PagedCache cache = paged_cache(1, 1, 32, device);
  const Tensor table = zeros({1, 1}, {i32, device});
  EXPECT_THROW(prompt_attention(zeros({1, 5, 1, 32}, device), cache, table, 4), ShapeError);
  EXPECT_THROW(prompt_attention(zeros({2, 5, 1, 32}, device), cache, table, 5), ShapeError);
  EXPECT_THROW(prompt_attention(zeros({1, 5, 1, 32}, device), cache, table, 65), ShapeError);
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
    const Tensor y = prompt_attention(q, cache, table, 70);
    EXPECT_EQ(y.dtype(), dtype);
    expect_near(y, prompt_attention(all, cache, table, 70), dtype == f32 ? 1e-6 : 2e-2);
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
        apply(op, {qkv, {}, places.table, places.positions, {}, {}, cache.keys, cache.values}, Attrs::of(a));
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
