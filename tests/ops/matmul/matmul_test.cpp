#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/kernel.h>
#include <etna/device/memory.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/matmul/gemm/internal/gradients.h>
#include <etna/tensor/ops/matmul/gemm/internal/tiling.h>
#include <etna/tensor/ops/matmul/gemm/internal/tuned.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>

#include "ops/numerics.h"

namespace etna {
namespace {

using namespace numerics;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Pairs of operands for all ranks: broadcast, transposed, strided and expanded.
std::vector<std::pair<Tensor, Tensor>> operands(DType t) {
  auto v = [&](Shape shape, std::uint64_t seed) { return values(shape, seed, t); };
  return {
      {v({1, 1}, 1), v({1, 1}, 2)},
      {v({7, 5}, 1), v({5, 3}, 2)},
      {v({5, 7}, 1).t(), v({5, 3}, 2)},
      {v({7, 5}, 1), v({3, 5}, 2).t()},
      {v({5, 7}, 1).t(), v({3, 5}, 2).t()},
      {v({67, 131}, 1), v({131, 71}, 2)},
      {v({131, 67}, 1).t(), v({71, 131}, 2).t()},
      {v({3, 7, 5}, 1), v({5, 11}, 2)},                                // batch folded into rows
      {v({2, 3, 7, 5}, 1), v({11, 5}, 2).t()},                         // the same, transposed weight
      {v({3, 1, 5}, 1), v({5, 11}, 2)},                                // one row a batch
      {v({7, 5}, 1), v({3, 5, 11}, 2)},                                // one left matrix for all
      {v({2, 1, 7, 5}, 1), v({3, 5, 2}, 2)},                           // both broadcast
      {v({2, 3, 7, 5}, 1).permute({1, 0, 2, 3}), v({3, 2, 5, 2}, 2)},  // permuted batch
      {v({2, 7, 3, 5}, 1).permute({0, 2, 1, 3}), v({2, 5, 3, 4}, 2).permute({0, 2, 1, 3})},  // heads inside rows
      {v({14, 10}, 1).slice(0, 0, 14, 2).slice(1, 0, 10, 2), v({5, 3}, 2)},                  // no unit stride
      {v({1, 5}, 1).expand({7, 5}), v({5, 1}, 2).expand({5, 3})},                            // stride 0
      {v({9, 8}, 1).slice(1, 1, 6), v({6, 3}, 2).slice(0, 1, 6)},                            // offset, padded rows
      {v({20, 3, 5}, 1), v({20, 5, 4}, 2)},                                                  // many small
      {v({2, 2, 2, 2, 3, 4}, 1).permute({3, 1, 2, 0, 4, 5}), v({2, 2, 2, 2, 4, 3}, 2)},  // a batch that does not merge
  };
}

TEST(Matmul, AgreesWithLoops) {
  for (DType t : {f64, f32, f16, bf16}) {
    int index = 0;
    for (auto& [a, b] : operands(t)) {
      Tensor y = matmul(a, b);
      EXPECT_EQ(y.dtype(), t);
      expect_near(doubles(y), naive_matmul(a, b), tolerance(t),
                  std::string(name(t)) + " case " + std::to_string(index++));
    }
  }
}

TEST(Matmul, TakesVectors) {
  Tensor a = values({3, 4}, 1), x = values({4}, 2), y = values({3}, 3), batch = values({2, 3, 4}, 4);
  EXPECT_EQ(matmul(a, x).shape(), Shape({3}));
  EXPECT_EQ(matmul(y, a).shape(), Shape({4}));
  EXPECT_EQ(matmul(x, x).shape(), Shape({}));
  EXPECT_EQ(matmul(batch, x).shape(), Shape({2, 3}));
  EXPECT_EQ(matmul(y, batch).shape(), Shape({2, 4}));
  expect_near(doubles(matmul(a, x)), naive_matmul(a, x.unsqueeze(1)), 1e-12);
  expect_near(doubles(matmul(y, batch)), naive_matmul(y.unsqueeze(0), batch), 1e-12);
}

TEST(Matmul, TakesEmptyOperands) {
  EXPECT_EQ(doubles(matmul(values({2, 0}, 1), values({0, 3}, 2))), std::vector<double>(6, 0.0));
  EXPECT_EQ(matmul(values({0, 4}, 1), values({4, 3}, 2)).shape(), Shape({0, 3}));
  EXPECT_EQ(matmul(values({2, 4}, 1), values({4, 0}, 2)).shape(), Shape({2, 0}));
  EXPECT_EQ(matmul(values({0, 2, 4}, 1), values({4, 3}, 2)).shape(), Shape({0, 2, 3}));
  EXPECT_EQ(doubles(matmul(values({3, 2, 0}, 1), values({0, 1}, 2))), std::vector<double>(6, 0.0));
}

TEST(Matmul, PromotesMixedFloats) {
  EXPECT_EQ(matmul(values({2, 3}, 1, bf16), values({3, 2}, 2, f32)).dtype(), f32);
  EXPECT_EQ(matmul(values({2, 3}, 1, f16), values({3, 2}, 2, bf16)).dtype(), f32);
  EXPECT_EQ(matmul(values({2, 3}, 1, f32), values({3, 2}, 2, f64)).dtype(), f64);
}

TEST(Matmul, SaysWhatDoesNotFit) {
  EXPECT_THAT(
      [] {
        matmul(zeros({32, 64}), zeros({128, 64}));
      },
      ThrowsMessage<ShapeError>(
          "matmul: inner sizes differ: a [32, 64] · b [128, 64]; did you mean b.transpose(0, 1)?"));
  EXPECT_THAT(
      [] {
        matmul(zeros({2, 3}), zeros({4, 5}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("a [2, 3] · b [4, 5]")));
  EXPECT_THAT([] { matmul(zeros({3}), zeros({4, 5})); }, ThrowsMessage<ShapeError>(HasSubstr("a [3] · b [4, 5]")));
  EXPECT_THAT([] { matmul(zeros({}), zeros({4, 5})); }, ThrowsMessage<ShapeError>(HasSubstr("no dimensions")));
  EXPECT_THAT([] { matmul(zeros({2, 3, 4}), zeros({3, 4, 5})); }, testing::Throws<ShapeError>());
  EXPECT_THAT([] { matmul(zeros({2, 3}, {i32}), zeros({3, 5})); }, ThrowsMessage<DtypeError>(HasSubstr("a holds i32")));
}

TEST(Matmul, GradientsAgreeWithDifferences) {
  auto f = [](const TensorList& in) { return TensorList{matmul(in[0], in[1])}; };
  std::vector<std::pair<Shape, Shape>> shapes = {
      {{3, 4}, {4, 2}},       {{2, 3, 4}, {4, 2}}, {{3, 4}, {2, 4, 2}}, {{2, 1, 3, 4}, {3, 4, 2}},
      {{1, 3, 4}, {1, 4, 2}}, {{4}, {4, 2}},       {{2, 3, 4}, {4}},    {{4}, {4}}};
  for (auto& [a, b] : shapes) {
    EXPECT_EQ(
        autograd::gradcheck(f, {values(a, 1).requires_grad_(), values(b, 2).requires_grad_()}, {.second_order = true}),
        "")
        << str(a) << " · " << str(b);
  }
  auto strided = [](const TensorList& in) {
    return TensorList{matmul(in[0].permute({1, 2, 0}), in[1].t().expand({3, 4, 2}))};
  };
  EXPECT_EQ(autograd::gradcheck(strided, {values({4, 3, 2}, 1).requires_grad_(), values({2, 4}, 2).requires_grad_()}),
            "");
}

TEST(Linear, AgreesWithLoopsAndAddsBias) {
  for (DType t : {f64, f32, f16, bf16}) {
    for (const Shape& shape : {Shape({5}), Shape({7, 5}), Shape({2, 3, 5})}) {
      Tensor x = values(shape, 1, t), weight = values({4, 5}, 2, t), bias = values({4}, 3, t);
      std::vector<double> want = naive_matmul(x.reshape({-1, 5}), weight.t()), b = doubles(bias);
      expect_near(doubles(linear(x, weight)), want, tolerance(t));
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += b[i % 4];
      Tensor y = linear(x, weight, bias);
      Shape shape_out = shape;
      shape_out.back() = 4;
      EXPECT_EQ(y.shape(), shape_out);
      expect_near(doubles(y), want, tolerance(t));
    }
  }
}

TEST(Linear, TakesEmptyOperands) {
  EXPECT_EQ(linear(values({0, 5}, 1), values({4, 5}, 2), values({4}, 3)).shape(), Shape({0, 4}));
  Tensor bias = values({4}, 3);
  EXPECT_EQ(doubles(linear(values({2, 0}, 1), values({4, 0}, 2), bias)), doubles(bias.expand({2, 4})));
  EXPECT_EQ(linear(values({2, 5}, 1), values({0, 5}, 2)).shape(), Shape({2, 0}));
}

TEST(Linear, SaysWhatDoesNotFit) {
  EXPECT_THAT(
      [] {
        linear(zeros({2, 4}), zeros({4, 3}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("did you mean weight.t()?")));
  EXPECT_THAT(
      [] {
        linear(zeros({2, 4}), zeros({3, 4}), zeros({4}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("it must be [3]")));
  EXPECT_THAT([] { linear(zeros({2, 4}), zeros({4})); }, ThrowsMessage<ShapeError>(HasSubstr("[out, in]")));
  EXPECT_THAT([] { linear(zeros({2, 4}, {i64}), zeros({3, 4})); }, testing::Throws<DtypeError>());
}

TEST(Linear, GradientsAgreeWithDifferences) {
  auto f = [](const TensorList& in) { return TensorList{linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor())}; };
  for (const Shape& shape : {Shape({5}), Shape({3, 5}), Shape({2, 3, 5})}) {
    TensorList in = {values(shape, 1).requires_grad_(), values({4, 5}, 2).requires_grad_(),
                     values({4}, 3).requires_grad_()};
    EXPECT_EQ(autograd::gradcheck(f, in, {.second_order = true}), "") << str(shape);
    in.pop_back();
    EXPECT_EQ(autograd::gradcheck(f, in), "") << str(shape);
  }
}

class MatmulOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
  }
};

TEST_F(MatmulOnGpu, AgreesWithTheCpu) {
  for (DType t : {f32, f16, bf16}) {
    int index = 0;
    for (auto& [a, b] : operands(t)) {
      std::string what = std::string(name(t)) + " case " + std::to_string(index++);
      // Views are created on the device, so that its kernel gets their strides.
      Tensor y = matmul(on_gpu(a), on_gpu(b));
      expect_near(doubles(y), naive_matmul(a, b), tolerance(t), what);
    }
    Tensor wide = on_gpu(values({61, 2, 37}, 3, t));
    for (const Tensor& a : {wide.select(1, 1), wide.select(1, 0).slice(0, 3, 60)}) {
      Tensor b = on_gpu(values({37, 41}, 4, t));
      expect_near(doubles(matmul(a, b)), naive_matmul(a.to(kCPU), b.to(kCPU)), tolerance(t), "slice");
      expect_near(doubles(matmul(b.t(), a.t())), naive_matmul(b.to(kCPU).t(), a.to(kCPU).t()), tolerance(t),
                  "slice, transposed");
      expect_near(doubles(matmul(b.t().contiguous(), a.t())), naive_matmul(b.to(kCPU).t(), a.to(kCPU).t()),
                  tolerance(t), "slice on the right");
    }
    Tensor odd = on_gpu(values({5, 4, 6, 3}, 5, t)).permute({1, 0, 3, 2}), even = on_gpu(values({4, 1, 6, 7}, 6, t));
    expect_near(doubles(matmul(odd, even)), naive_matmul(odd.to(kCPU), even.to(kCPU)), tolerance(t),
                "batch of permuted matrices");
  }
}

TEST_F(MatmulOnGpu, LongSumsAreSplitAndStayTheSame) {
  for (DType t : {f32, bf16}) {
    Tensor x = values({1543, 37}, 1, t), y = values({1543, 29}, 2, t);
    Tensor first = matmul(on_gpu(x).t(), on_gpu(y));
    expect_near(doubles(first), naive_matmul(x.t(), y), 5 * tolerance(t));
    EXPECT_EQ(doubles(first), doubles(matmul(on_gpu(x).t(), on_gpu(y))));
  }
}

// llvmpipe silently ends the loops of an invocation after 65,535 iterations.
TEST_F(MatmulOnGpu, VeryLongSumsAreWholeInEveryTile) {
  for (std::size_t tile : {0u, 1u, 2u}) {
    const std::int64_t k = 14080000 / gemm::plain_tiles()[tile].m + 1;  // just too long for one loop
    const Tensor a = ones({1, k}, {f32, kVulkan}), b = ones({k, 2}, {f32, kVulkan});
    gemm::ForcedConfig whole({gemm::KernelVariant::plain, {tile, 1}});
    EXPECT_EQ(doubles(matmul(a, b)), std::vector<double>(2, static_cast<double>(k))) << "tile " << tile;
  }
}

TEST_F(MatmulOnGpu, EveryAlignmentOfEveryLayout) {
  for (std::int64_t size : {64, 66, 67}) {
    Tensor a = values({size, size}, 1, f32), b = values({size, size}, 2, f32);
    Tensor ga = on_gpu(a), gb = on_gpu(b);
    expect_near(doubles(matmul(ga, gb)), naive_matmul(a, b), 1e-5);
    expect_near(doubles(matmul(ga, gb.t())), naive_matmul(a, b.t()), 1e-5);
    expect_near(doubles(matmul(ga.t(), gb)), naive_matmul(a.t(), b), 1e-5);
    expect_near(doubles(matmul(ga.t(), gb.t())), naive_matmul(a.t(), b.t()), 1e-5);
  }
}

TEST_F(MatmulOnGpu, EveryTileAgrees) {
  std::int64_t units = std::max<std::int64_t>(32, gpu::capabilities(kVulkan).compute_units), k = 19;
  std::set<std::int64_t> met;
  const Override plain(&Overrides::gemm_variant, gemm::KernelVariant::plain);
  for (std::int64_t side : {67, 301, 519, 1030}) {
    std::int64_t m = side, n = side + 1;
    if (!met.insert(gemm::plain_tiles()[gemm::choose_tiling({m, n, k}, units, gemm::plain_tiles()).tile].m).second)
      continue;
    Tensor a = values({m, k}, 1, f32), b = values({k, n}, 2, f32);
    std::vector<double> want = doubles(matmul(a, b));
    std::string what = "side " + std::to_string(side);
    expect_near(doubles(matmul(on_gpu(a), on_gpu(b))), want, 1e-5, what);
    Tensor at = on_gpu(a.t().contiguous()), bt = on_gpu(b.t().contiguous());
    expect_near(doubles(matmul(at.t(), bt.t())), want, 1e-5, what + ", transposed");
  }
  EXPECT_EQ(met, std::set<std::int64_t>({32, 64, 128}));
}

TEST_F(MatmulOnGpu, GradientsOfHalvesAreRoundedOnce) {
  // 4097 ones: f16 and bf16 would lose the last one if they rounded intermediate sums.
  for (Device d : {kCPU, kVulkan}) {
    Tensor x = ones({4097, 2}, {bf16, d}), weight = ones({3, 2}, {bf16, d});
    Tensor dy = ones({4097, 3}, {bf16, d});
    Tensor wide = matmul(dy.t(), x, f32);
    EXPECT_EQ(wide.dtype(), f32);
    EXPECT_EQ(doubles(wide), std::vector<double>(6, 4097.0));
    EXPECT_EQ(sum(dy, {0}, false, f32).dtype(), f32);
    EXPECT_EQ(doubles(sum(dy, {0}, false, f32)), std::vector<double>(3, 4097.0));
    // Two uses of a weight: their gradients are added in f32, and the leaf holds bf16.
    weight.requires_grad_();
    Tensor y = cat({linear(x, weight), linear(x.slice(0, 0, 7), weight)}, 0);
    y.backward(ones({4104, 3}, {bf16, d}));
    EXPECT_EQ(weight.grad().dtype(), bf16);
    EXPECT_EQ(doubles(weight.grad()), std::vector<double>(6, 4096.0)) << "4104 rounded to bf16";
  }
  EXPECT_THROW(matmul(ones({2, 2}), ones({2, 2}), bf16), DtypeError);
  EXPECT_THROW(sum(ones({2}), {}, false, f16), DtypeError);
}

/// The expected result of an epilogue, element by element, in f64.
Tensor finished(const Tensor& sums, const gemm::Epilogue& e) {
  auto wide = [](const Tensor& x) { return x.to(kCPU, f64); };
  Tensor t = sums * static_cast<double>(e.scale);
  if (e.scale_by.defined()) t = t * wide(e.scale_by);
  if (e.bias.defined()) t = t + wide(e.bias);
  if (e.derivative_at.defined()) {
    t = activation_backward(t, wide(e.derivative_at), e.activation);
  } else {
    t = activate(t, e.activation);
  }
  return e.residual.defined() ? t + wide(e.residual) : t;
}

TEST_F(MatmulOnGpu, EpiloguesDoAllTheySay) {
  const OpCall call{*all_ops()[0], {}, {}};
  for (DType t : {f32, bf16}) {
    // One kernel, and one with k split and reduced.
    for (Shape shape : {Shape{37, 29, 41}, Shape{5, 8, 2055}}) {
      std::int64_t m = shape[0], n = shape[1], k = shape[2];
      Tensor a = values({m, k}, 1, t), b = values({k, n}, 2, t), bias = values({n}, 3, bf16), at = values({m, n}, 4, t);
      Tensor sums = matmul(a.to(f64), b.to(f64));
      for (Activation activation : {Activation::none, t == f32 ? Activation::relu : Activation::silu}) {
        for (bool backward : {false, true}) {
          gemm::Epilogue e{.scale = 0.5f, .scale_by = on_gpu(full({1}, 0.25)), .bias = on_gpu(bias)};
          e.activation = activation;
          // y is a column range of a wider matrix, and also the residual.
          Tensor whole = on_gpu(values({m, backward ? n + 3 : (n + 15) / 8 * 8}, 5, f32));
          Tensor y = whole.slice(1, backward ? 2 : 0, backward ? n + 2 : n), beside = whole.slice(1, n + 2, n + 3);
          e.residual = y;
          if (backward) e.derivative_at = on_gpu(at);
          Tensor want = finished(sums, e), outside = beside.to(kCPU);
          if (!backward) e.preactivation = on_gpu(zeros({m, n}, {f32}));
          ASSERT_TRUE(gemm::on_gpu(call, on_gpu(a), on_gpu(b), e, y));
          expect_near(doubles(y), doubles(want), 1e-4);
          EXPECT_EQ(doubles(beside), doubles(outside));
          if (!backward) expect_near(doubles(e.preactivation), doubles(sums * 0.125 + bias.to(f64)), 1e-4);
        }
      }
    }
  }
}

TEST_F(MatmulOnGpu, TakesEmptyOperands) {
  EXPECT_EQ(doubles(matmul(on_gpu(zeros({2, 0})), on_gpu(zeros({0, 3})))), std::vector<double>(6, 0.0));
  EXPECT_EQ(matmul(on_gpu(zeros({0, 4})), on_gpu(zeros({4, 3}))).shape(), Shape({0, 3}));
  Tensor bias = values({4}, 3, f32);
  EXPECT_EQ(doubles(linear(on_gpu(zeros({2, 0})), on_gpu(zeros({4, 0})), on_gpu(bias))), doubles(bias.expand({2, 4})));
}

TEST_F(MatmulOnGpu, LinearAndItsGradientsAgree) {
  for (DType t : {f32, f16, bf16}) {
    TensorList host, device;
    for (Device d : {kCPU, kVulkan}) {
      Tensor x = values({3, 17, 23}, 1, t).to(d).requires_grad_(),
             weight = values({31, 23}, 2, t).to(d).requires_grad_();
      Tensor bias = values({31}, 3, t).to(d).requires_grad_();
      Tensor y = linear(x, weight, bias);
      y.backward(values({3, 17, 31}, 4, t).to(d));
      (d.is_cpu() ? host : device) = TensorList{y, x.grad(), weight.grad(), bias.grad()};
    }
    for (std::size_t i = 0; i < host.size(); ++i)
      expect_near(doubles(device[i]), doubles(host[i]), 2 * tolerance(t), std::to_string(i));
  }
}

}  // namespace
}  // namespace etna
