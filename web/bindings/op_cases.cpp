// The ops of the page "Bench and tests", in sizes that a phone runs in milliseconds.
#include "op_cases.h"

#include <etna/tensor/ops.h>

namespace etna::web {
namespace {

using Inputs = std::vector<Tensor>;

/// Elementwise ops move what they read and write, and compute little.
OpCase elementwise(const char* name, std::function<Tensor(const Inputs&)> run, double low, double high, int operands) {
  const Shape shape{256, 1024};
  return {name, std::vector<Operand>(static_cast<std::size_t>(operands), {shape, low, high}), std::move(run), 0,
          4.0 * (operands + 1) * 256 * 1024};
}

OpCase over_rows(const char* name, std::function<Tensor(const Inputs&)> run, double results = 1) {
  return {name, {{{256, 1024}}}, std::move(run), 0, 4.0 * 256 * (1024 + results)};
}

OpCase gemm(const char* name, std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto product = static_cast<double>(m * n * k);
  return {name,
          {{{m, k}}, {{k, n}}},
          [](const Inputs& x) { return x[0].matmul(x[1]); },
          2 * product,
          4.0 * static_cast<double>(m * k + k * n + m * n)};
}

#define ETNA_WEB_UNARY(NAME, LOW, HIGH) \
  elementwise(                          \
      #NAME, [](const Inputs& x) { return x[0].NAME(); }, LOW, HIGH, 1)
#define ETNA_WEB_BINARY(NAME, LOW, HIGH) \
  elementwise(                           \
      #NAME, [](const Inputs& x) { return x[0].NAME(x[1]); }, LOW, HIGH, 2)

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> all = {
      ETNA_WEB_BINARY(add, -3, 3),
      ETNA_WEB_BINARY(sub, -3, 3),
      ETNA_WEB_BINARY(mul, -3, 3),
      ETNA_WEB_BINARY(div, 0.5, 3),
      ETNA_WEB_BINARY(pow, 0.5, 3),
      ETNA_WEB_BINARY(maximum, -3, 3),
      ETNA_WEB_BINARY(minimum, -3, 3),
      ETNA_WEB_UNARY(neg, -3, 3),
      ETNA_WEB_UNARY(abs, -3, 3),
      ETNA_WEB_UNARY(square, -3, 3),
      ETNA_WEB_UNARY(relu, -3, 3),
      ETNA_WEB_UNARY(exp, -3, 3),
      ETNA_WEB_UNARY(log, 0.1, 4),
      ETNA_WEB_UNARY(sqrt, 0.1, 4),
      ETNA_WEB_UNARY(rsqrt, 0.1, 4),
      ETNA_WEB_UNARY(reciprocal, 0.3, 4),
      ETNA_WEB_UNARY(sin, -6, 6),
      ETNA_WEB_UNARY(cos, -6, 6),
      ETNA_WEB_UNARY(tanh, -4, 4),
      ETNA_WEB_UNARY(sigmoid, -6, 6),
      ETNA_WEB_UNARY(silu, -6, 6),
      ETNA_WEB_UNARY(gelu, -4, 4),
      ETNA_WEB_UNARY(softplus, -6, 6),
      ETNA_WEB_UNARY(erf, -3, 3),
      over_rows("sum", [](const Inputs& x) { return x[0].sum({1}); }),
      over_rows("mean", [](const Inputs& x) { return x[0].mean({1}); }),
      over_rows("max", [](const Inputs& x) { return x[0].max({1}); }),
      over_rows("var", [](const Inputs& x) { return x[0].var({1}); }),
      over_rows("logsumexp", [](const Inputs& x) { return x[0].logsumexp({1}); }),
      over_rows(
          "softmax", [](const Inputs& x) { return x[0].softmax(1); }, 1024),
      over_rows(
          "log_softmax", [](const Inputs& x) { return x[0].log_softmax(1); }, 1024),
      over_rows(
          "cumsum", [](const Inputs& x) { return x[0].cumsum(1); }, 1024),
      over_rows(
          "transpose", [](const Inputs& x) { return x[0].transpose(0, 1).contiguous(); }, 1024),
      {"layer_norm",
       {{{256, 1024}}, {{1024}, 0.5, 1.5}, {{1024}}},
       [](const Inputs& x) { return layer_norm(x[0], x[1], x[2]); },
       0,
       8.0 * 256 * 1024},
      {"rms_norm",
       {{{256, 1024}}, {{1024}, 0.5, 1.5}},
       [](const Inputs& x) { return rms_norm(x[0], x[1]); },
       0,
       8.0 * 256 * 1024},
      gemm("matmul 256", 256, 256, 256),
      gemm("matmul 37·101·53", 37, 53, 101),
      gemm("matmul of one row", 1, 1024, 1024),
      {"linear",
       {{{64, 784}}, {{256, 784}, -0.1, 0.1}, {{256}}},
       [](const Inputs& x) { return linear(x[0], x[1], x[2]); },
       2.0 * 64 * 784 * 256,
       4.0 * 784 * (64 + 256)},
      {"conv2d",
       {{{16, 16, 14, 14}}, {{32, 16, 3, 3}, -0.2, 0.2}, {{32}}},
       [](const Inputs& x) { return conv2d(x[0], x[1], x[2], 1, 1); },
       2.0 * 16 * 14 * 14 * 32 * 16 * 9,
       4.0 * 16 * 14 * 14 * 48},
      {"max_pool2d",
       {{{16, 16, 28, 28}}},
       [](const Inputs& x) { return max_pool2d(x[0], 2); },
       0,
       5.0 * 16 * 16 * 28 * 28},
      {"embedding",
       {{{512, 64}}, {{32, 32}, 0, 0, false, 512}},
       [](const Inputs& x) { return embedding(x[0], x[1]); },
       0,
       8.0 * 1024 * 64},
      {"cross_entropy",
       {{{256, 512}}, {{256}, 0, 0, false, 512}},
       [](const Inputs& x) { return cross_entropy(x[0], x[1]); },
       0,
       4.0 * 256 * 512},
      {"attention",
       {{{1, 4, 64, 32}}, {{1, 4, 64, 32}}, {{1, 4, 64, 32}}},
       [](const Inputs& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {}, true); },
       4.0 * 4 * 64 * 64 * 32,
       16.0 * 4 * 64 * 32},
  };
  return all;
}

}  // namespace etna::web
