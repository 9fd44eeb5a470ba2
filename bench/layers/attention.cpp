#include <fmt/format.h>

#include <etna/tensor/ops.h>

#include "measure.h"

namespace bench {

using namespace etna;

/// Causal self-attention of [B, H, T, D].
void attentions(const Setting& setting, const Print& print) {
  manual_seed(1);
  struct Sizes {
    std::int64_t batch, heads, length, width;
  };
  const bool cpu = setting.device.is_cpu();
  if (cpu && setting.dtype != f32) return;
  const std::vector<Sizes> all =
      cpu ? std::vector<Sizes>{{2, 8, 256, 64}}
          : std::vector<Sizes>{
                {16, 12, 1024, 64}, {8, 12, 2048, 64}, {4, 16, 4096, 64}, {4, 16, 4096, 128}, {2, 16, 8192, 128}};
  for (const Sizes& s : all) {
    const auto input = [&] {
      return randn({s.batch, s.heads, s.length, s.width}).to(setting.device, setting.dtype).requires_grad_();
    };
    const Tensor q = input(), k = input(), v = input();
    print(timed(setting, "attention", fmt::format("causal B{} H{} T{} D{}", s.batch, s.heads, s.length, s.width),
                [&] { return scaled_dot_product_attention(q, k, v, {}, true); }, {q, k, v}));
  }
}

}  // namespace bench
