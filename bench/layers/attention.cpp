#include <utility>

#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

#include "measure.h"

namespace bench {

using namespace etna;

/// Causal self-attention of [B, H, T, D]; of one length also with a window, a soft cap and packed documents.
void attentions(const Setting& setting, const Print& print) {
  manual_seed(1);
  struct Sizes {
    std::int64_t batch, heads, length, width;
  };
  const bool cpu = setting.device.is_cpu();
  if (cpu && setting.dtype != f32) return;
  const std::vector<Sizes> all = cpu ? std::vector<Sizes>{{2, 8, 256, 64}}
                                     : std::vector<Sizes>{{16, 12, 1024, 64}, {8, 12, 2048, 64},  {4, 16, 4096, 64},
                                                          {4, 16, 4096, 128}, {2, 16, 8192, 128}, {4, 8, 4096, 256}};
  for (const Sizes& s : all) {
    const auto input = [&] {
      return randn({s.batch, s.heads, s.length, s.width}).to(setting.device, setting.dtype).requires_grad_();
    };
    const Tensor q = input(), k = input(), v = input();
    print(timed(setting, "attention", fmt::format("causal B{} H{} T{} D{}", s.batch, s.heads, s.length, s.width),
                [&] { return scaled_dot_product_attention(q, k, v, {}, true); }, {q, k, v}));
    if (s.length != 4096 || s.width > 128) continue;
    if (s.width == 128) {
      const auto wide = [&] { return cat({input(), input().slice(-1, 0, 64)}, -1).detach().requires_grad_(); };
      const Tensor wide_q = wide(), wide_k = wide();
      print(timed(setting, "attention", "causal T4096 D192, values of 128",
                  [&] { return scaled_dot_product_attention(wide_q, wide_k, v, {}, true); }, {wide_q, wide_k, v}));
    }
    const Tensor lengths = full({s.batch, 8}, static_cast<double>(s.length) / 8, {i32, setting.device});
    const Tensor near = triu(tril(ones({s.length, s.length}, {f32, setting.device})), 1 - 512) > 0.0;
    const std::pair<const char*, AttentionSettings> limits[] = {
        {"window 512", {.causal = true, .window = 512}},
        {"the same as a mask", {.mask = near}},
        {"the same, added", {.mask = log(near.to(f32)).to(setting.dtype)}},
        {"added for each head",
         {.mask = randn({s.heads, s.length, s.length}, {f32, setting.device}).to(setting.dtype)}},
        {"soft cap", {.causal = true, .softcap = 50}},
        {"8 documents", {.causal = true, .documents = document_bounds(lengths, s.length)}}};
    for (const auto& limit : limits) {
      print(timed(setting, "attention", fmt::format("{} T{} D{}", limit.first, s.length, s.width),
                  [&] { return dot_product_attention(q, k, v, limit.second); }, {q, k, v}));
    }
  }
}

/// Prompts of `steps` tokens behind `past` that a paged cache has, 32 heads over 8 heads of keys.
void prompts(const Setting& setting, const Print& print) {
  manual_seed(1);
  struct Sizes {
    std::int64_t steps, past, width;
  };
  if (setting.dtype == f32 || setting.device.is_cpu()) return;
  constexpr std::int64_t heads = 32, groups = 8;
  for (const Sizes& s : std::vector<Sizes>{{512, 0, 64},
                                           {2048, 0, 64},
                                           {64, 7168, 64},
                                           {192, 7168, 64},
                                           {640, 7168, 64},
                                           {2048, 6144, 64},
                                           {512, 0, 128},
                                           {2048, 0, 128},
                                           {640, 7168, 128}}) {
    const std::int64_t blocks = (s.steps + s.past + kCacheBlock - 1) / kCacheBlock;
    const TensorOptions options{setting.dtype, setting.device};
    const Tensor q = randn({1, s.steps, heads, s.width}).to(setting.device, setting.dtype);
    const Tensor table = arange(0, blocks, 1, {i32, setting.device}).unsqueeze(0),
                 position = full({1}, static_cast<double>(s.past), {i32, setting.device});
    PagedCache cache = paged_cache(blocks, groups, s.width, options);
    for (Tensor* x : {&cache.keys, &cache.values}) x->copy_(randn(x->shape()));
    print(timed(setting, "prompt", fmt::format("T{} behind {} D{}", s.steps, s.past, s.width), [&] {
      return TensorList{paged_attention(q, cache, {table, position})};
    }));
  }
}

}  // namespace bench
