#include <fmt/format.h>

#include "case.h"

/// The matrix products of a training step: each linear layer forward (x·Wᵀ + b), its two gradients (dy·W and dyᵀ·x), and a square
/// one for the peak.
namespace bench {

using namespace etna;

namespace {

double product_flops(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

double product_bytes(std::int64_t m, std::int64_t n, std::int64_t k, DType t) {
  return static_cast<double>(m * k + k * n + m * n) * static_cast<double>(item_size(t));
}

}  // namespace

Cases product_cases(const Workload& w) {
  Cases cases;
  struct Layer {
    const char* name;
    std::int64_t in, out;
    bool bias;
  };
  const std::int64_t rows = w.rows(), dim = w.model.dim, ffn = w.model.ffn;
  const Layer layers[] = {{"qkv", dim, 3 * dim, true},
                          {"proj", dim, dim, true},
                          {"up", dim, ffn, true},
                          {"down", ffn, dim, true},
                          {"head", dim, w.model.vocab, false}};
  for (DType t : {f32, bf16, f16}) {
    for (const Layer& layer : layers) {
      const std::int64_t in = layer.in, out = layer.out;
      const bool bias = layer.bias;
      const DType sums = item_size(t) == 2 ? f32 : t;
      const double flops = product_flops(rows, out, in), bytes = product_bytes(rows, out, in, t);
      cases.push_back({fmt::format("linear_{}/{}", layer.name, name(t)), bytes, flops, [=](Device d) {
                         Tensor b = bias ? normal({out}, d, t) : Tensor();
                         return untaped([x = normal({rows, in}, d, t), weight = normal({out, in}, d, t), b] {
                           linear(x, weight, b);
                         });
                       }});
      cases.push_back(
          {fmt::format("linear_{}_dx/{}", layer.name, name(t)), bytes, flops, [=](Device d) {
             return untaped([dy = normal({rows, out}, d, t), weight = normal({out, in}, d, t)] { matmul(dy, weight); });
           }});
      cases.push_back({fmt::format("linear_{}_dw/{}", layer.name, name(t)), bytes, flops, [=](Device d) {
                         return untaped([dy = normal({rows, out}, d, t), x = normal({rows, in}, d, t), sums] {
                           matmul(dy.t(), x, sums);  // as the gradient of a weight is made
                         });
                       }});
    }
    const std::int64_t side = w.model.dim <= 128 ? 1024 : 4096;
    cases.push_back(
        {fmt::format("matmul_{}/{}", side, name(t)), product_bytes(side, side, side, t),
         product_flops(side, side, side), [=](Device d) {
           return untaped([a = normal({side, side}, d, t), b = normal({side, side}, d, t)] { matmul(a, b); });
         }});
  }
  return cases;
}

}  // namespace bench
