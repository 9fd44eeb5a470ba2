#include <fmt/format.h>

#include <etna/tensor/autocast.h>

#include "case.h"

/// The gemms of a training step: each linear layer's forward (x·Wᵀ + b) and two gradients (dy·W and dyᵀ·x), and a
/// square gemm for the peak.
namespace bench {

using namespace etna;

namespace {

double gemm_flops(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

double gemm_bytes(std::int64_t m, std::int64_t n, std::int64_t k, DType t) {
  return static_cast<double>(m * k + k * n + m * n) * static_cast<double>(item_size(t));
}

}  // namespace

Cases gemm_cases(const Workload& w) {
  Cases cases;
  struct Layer {
    const char* name;
    std::int64_t in, out;
    bool bias;
  };
  const std::int64_t rows = w.rows(), dim = w.model.width, ffn = w.model.feed_forward;
  const Layer layers[] = {{"qkv", dim, 3 * dim, true},
                          {"proj", dim, dim, true},
                          {"up", dim, ffn, true},
                          {"down", ffn, dim, true},
                          {"head", dim, w.model.vocabulary, false}};
  for (DType t : {f32, bf16, f16}) {
    for (const Layer& layer : layers) {
      const std::int64_t in = layer.in, out = layer.out;
      const bool bias = layer.bias;
      const DType sums = item_size(t) == 2 ? f32 : t;
      const double flops = gemm_flops(rows, out, in), bytes = gemm_bytes(rows, out, in, t);
      cases.push_back({fmt::format("linear_{}/{}", layer.name, name(t)), bytes, flops, [=](Device d) {
                         Tensor b = bias ? normal({out}, d, t) : Tensor();
                         return untaped([x = normal({rows, in}, d, t), weight = normal({out, in}, d, t), b] {
                           linear(x, weight, b);
                         });
                       }});
      cases.back().gemm = GemmSizes{rows, out, in, false, true};
      cases.push_back(
          {fmt::format("linear_{}_dx/{}", layer.name, name(t)), bytes, flops, [=](Device d) {
             return untaped([dy = normal({rows, out}, d, t), weight = normal({out, in}, d, t)] { matmul(dy, weight); });
           }});
      cases.back().gemm = GemmSizes{rows, in, out};
      cases.push_back({fmt::format("linear_{}_dw/{}", layer.name, name(t)), bytes, flops, [=](Device d) {
                         return untaped([dy = normal({rows, out}, d, t), x = normal({rows, in}, d, t), sums] {
                           matmul(dy.t(), x, sums);  // the way a weight's gradient is computed
                         });
                       }});
      cases.back().gemm = GemmSizes{out, in, rows, true, false};
    }
    // The same followed by what a transformer adds: the f32 residual stream and the next sublayer's norm.
    for (const Layer& layer : {layers[1], layers[3]}) {
      const std::int64_t in = layer.in, out = layer.out;
      const double stream = static_cast<double>(rows * out) * 8, flops = gemm_flops(rows, out, in);
      cases.push_back({fmt::format("linear_layer_norm_{}/{}", layer.name, name(t)),
                       gemm_bytes(rows, out, in, t) + stream, flops, [=](Device d) {
                         return untaped([x = normal({rows, in}, d, t), weight = normal({out, in}, d, t),
                                         bias = normal({out}, d), residual = normal({rows, out}, d),
                                         scale = ones({out}, {f32, d}), t] {
                           auto mixed = autocast(t);
                           linear_layer_norm(x, weight, bias, residual, scale, bias);
                         });
                       }});
    }
    const std::int64_t side = w.model.width <= 128 ? 1024 : 4096;
    cases.push_back(
        {fmt::format("matmul_{}/{}", side, name(t)), gemm_bytes(side, side, side, t), gemm_flops(side, side, side),
         [=](Device d) {
           return untaped([a = normal({side, side}, d, t), b = normal({side, side}, d, t)] { matmul(a, b); });
         }});
    cases.back().gemm = GemmSizes{side, side, side};
    cases.push_back(
        {fmt::format("matmul_{}_nt/{}", side, name(t)), gemm_bytes(side, side, side, t), gemm_flops(side, side, side),
         [=](Device d) {
           return untaped([a = normal({side, side}, d, t), b = normal({side, side}, d, t)] { matmul(a, b.t()); });
         }});
    cases.back().gemm = GemmSizes{side, side, side, false, true};
  }
  // i8 as quantized layers multiply it: i32 sums, scaled to bf16.
  auto whole = [](Shape shape, Device d) { return randint(-128, 128, shape, {i8, d}); };
  auto int8_case = [&](std::string name, std::int64_t m, std::int64_t n, std::int64_t k) {
    const double bytes = static_cast<double>(m * k + n * k + 2 * m * n);
    cases.push_back({std::move(name), bytes, gemm_flops(m, n, k), [=](Device d) {
                       return untaped([a = whole({m, k}, d), w = whole({n, k}, d), rows = ones({m}, {f32, d}),
                                       columns = ones({n}, {f32, d})] { int8_matmul(a, w.t(), rows, columns, bf16); });
                     }});
  };
  for (const Layer& layer : layers) int8_case(fmt::format("int8_{}/bf16", layer.name), rows, layer.out, layer.in);
  const std::int64_t side = w.model.width <= 128 ? 1024 : 4096;
  int8_case(fmt::format("int8_matmul_{}/bf16", side), side, side, side);
  return cases;
}

}  // namespace bench
