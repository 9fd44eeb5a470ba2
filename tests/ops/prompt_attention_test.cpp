#include <cmath>
#include <numeric>

#include <gmock/gmock.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/paged_attention.h>
#include <nn/on_device.h>
#include <ops/numerics.h>

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
    for (const DType dtype : {f32, f16, bf16, u8}) {
      PagedCache cache = paged_cache(12, kGroups, kSize, {dtype, device});
      const Tensor qkv = values({1, positions, (kHeads + 2 * kGroups) * kSize}, 3, f32).to(device);
      const CachePlaces begin{table, from_vector(std::vector<std::int32_t>{0}, {1}, device)};
      const Tensor q = rotate_and_cache_(qkv, cache, begin, {.heads = kHeads, .kv_heads = kGroups});
      for (const PagedAttentionSettings& settings :
           {PagedAttentionSettings{}, {.scale = 0.3, .window = 40}, {.scale = 2, .window = 300}, {.softcap = 5}}) {
        const Tensor part = q.slice(1, past, positions);
        const Tensor at = from_vector(std::vector<std::int32_t>{static_cast<std::int32_t>(past)}, {1}, device);
        expect_near(prompt_attention(part, cache, table, positions, settings),
                    paged_attention(part, cache, {table, at}, settings), dtype == f32 ? 1e-5 : 1e-2);
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

INSTANTIATE_TEST_SUITE_P(Device, PromptAttention, testing::Values(kCPU, kVulkan), device_type);

}  // namespace
}  // namespace etna
