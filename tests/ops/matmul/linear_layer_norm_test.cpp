#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/device/kernel.h>
#include <etna/tensor/autocast.h>

#include "ops/numerics.h"
#include "runner/run_tests.h"

namespace etna {
namespace {

using namespace numerics;

/// The end of a sublayer in dtype t on a stream of dtype `stream`.
struct End {
  Tensor x, w, bias, residual, weight, shift;

  End(std::int64_t rows, std::int64_t in, std::int64_t out, DType t, DType stream)
      : x(values({rows, in}, 1, t)),
        w(values({out, in}, 2, t)),
        bias(values({out}, 3, t)),
        residual(values({rows, out}, 4, stream)),
        weight(values({out}, 5, f32)),
        shift(values({out}, 6, f32)) {}

  AddedNorm on(Device d) const {
    return linear_layer_norm(x.to(d), w.to(d), bias.to(d), residual.to(d), weight.to(d), shift.to(d));
  }
  /// In f64 throughout.
  AddedNorm exact() const {
    return add_layer_norm(residual.to(f64), linear(x.to(f64), w.to(f64), bias.to(f64)), weight.to(f64), shift.to(f64));
  }
};

std::uint64_t dispatches_of(const std::function<void()>& work) {
  synchronize(kVulkan);
  std::uint64_t before = gpu::queue_stats(kVulkan).dispatches;
  work();
  synchronize(kVulkan);
  return gpu::queue_stats(kVulkan).dispatches - before;
}

TEST(LinearLayerNorm, AgreesWithTheCompositionInEveryTile) {
  struct Sizes {
    std::int64_t rows, in, out;
  };
  std::vector<Device> devices = {kCPU};
  if (with_vulkan()) devices.push_back(kVulkan);
  const std::vector<Sizes> sizes = {{1, 1, 1},      {9, 16, 20},     {8, 64, 32},  {17, 523, 61}, {8, 256, 64},
                                    {16, 128, 128}, {11, 1031, 131}, {7, 519, 34}, {9, 520, 254}, {3, 96, 256}};
  for (Device device : devices) {
    for (auto [rows, in, out] : device.is_cpu() ? sizes : thinned(sizes)) {
      for (auto [t, stream] : {std::pair(f32, f32), std::pair(bf16, f32), std::pair(f16, f16), std::pair(bf16, bf16)}) {
        End end(rows, in, out, t, stream);
        AddedNorm got = end.on(device), want = end.exact();
        std::string what = std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out) + " " +
                           std::string(name(t)) + " on " + device.str();
        EXPECT_EQ(got.sum.dtype(), stream);
        expect_near(doubles(got.sum), doubles(want.sum), tolerance(t) * (in > 500 ? 4 : 1), what);
        if (out > 1) expect_near(doubles(got.normed), doubles(want.normed), 8 * tolerance(t), what);
      }
    }
  }
}

TEST(LinearLayerNorm, IsOneDispatchWhereRowsAreShort) {
  if (!with_vulkan()) GTEST_SKIP();
  for (auto [out, dispatches] : {std::pair<std::int64_t, std::uint64_t>{128, 1}, {256, 1}, {257, 2}}) {
    End end(8, 64, out, f32, f32);
    for (Tensor* x : {&end.x, &end.w, &end.bias, &end.residual, &end.weight, &end.shift}) *x = x->to(kVulkan);
    EXPECT_EQ(dispatches_of([&] { end.on(kVulkan); }), dispatches) << out;
  }
}

TEST(LinearLayerNorm, NormalizesTheSumAsItStoredIt) {
  if (!with_vulkan()) GTEST_SKIP();
  for (DType t : {f32, f16, bf16}) {
    End end(9, 40, 100, t, t);
    AddedNorm got = end.on(kVulkan);
    Tensor again = layer_norm(got.sum.to(kCPU).to(f64), end.weight.to(f64), end.shift.to(f64));
    expect_near(doubles(got.normed), doubles(again), t == f32 ? 2e-6 : tolerance(t) / 2, std::string(name(t)));
  }
}

TEST(LinearLayerNorm, TakesStridedRowsAndPaddedOnes) {
  if (!with_vulkan()) GTEST_SKIP();
  for (DType t : {f32, bf16}) {
    End end(12, 40, 36, t, f32);
    // The memory beside the views is NaN, so that reading it shows.
    auto padded = [](const Tensor& x, std::int64_t by) {
      Tensor wide = full({x.size(0), x.size(1) + by}, NAN, {x.dtype()});
      wide.slice(1, 0, x.size(1)).copy_(x);
      return wide.to(kVulkan).slice(1, 0, x.size(1));
    };
    AddedNorm want = end.exact();
    for (std::int64_t by : {1, 8}) {
      AddedNorm got = linear_layer_norm(padded(end.x, by), padded(end.w, by), end.bias.to(kVulkan),
                                        padded(end.residual, by), end.weight.to(kVulkan), end.shift.to(kVulkan));
      expect_near(doubles(got.sum), doubles(want.sum), tolerance(f32), std::string(name(t)));
      AddedNorm columns = linear_layer_norm(
          end.x.to(kVulkan).t().contiguous().t(), end.w.to(kVulkan).t().contiguous().t(), end.bias.to(kVulkan),
          end.residual.to(kVulkan).t().contiguous().t(), end.weight.to(kVulkan), end.shift.to(kVulkan));
      expect_near(doubles(columns.sum), doubles(want.sum), tolerance(t), std::string(name(t)));
      expect_near(doubles(columns.normed), doubles(want.normed), 4 * tolerance(t), std::string(name(t)));
    }
  }
}

TEST(LinearLayerNorm, KeepsNaNInItsRow) {
  if (!with_vulkan()) GTEST_SKIP();
  End end(3, 8, 32, f32, f32);
  std::vector<float> x = end.x.to_vector<float>();
  x[8] = NAN;
  end.x = from_vector(x, {3, 8});
  Tensor y = end.on(kVulkan).normed.to(kCPU);
  EXPECT_FALSE(std::isnan(y[0][0].item<float>()));
  EXPECT_TRUE(std::isnan(y[1][31].item<float>()));
  EXPECT_FALSE(std::isnan(y[2][0].item<float>()));
}

TEST(LinearLayerNorm, GivesTheGradientsOfTheComposition) {
  std::vector<Device> devices = {kCPU};
  if (with_vulkan()) devices.push_back(kVulkan);
  for (Device device : devices) {
    TensorList apart, joined;
    for (auto [shape, seed] : {std::pair(Shape{6, 12}, 1),
                               {Shape{24, 12}, 2},
                               {Shape{24}, 3},
                               {Shape{16, 24}, 4},
                               {Shape{16}, 5},
                               {Shape{6, 16}, 6},
                               {Shape{16}, 7},
                               {Shape{16}, 8}}) {
      Tensor v = values(shape, static_cast<std::uint64_t>(seed), f32).to(device);
      apart.push_back(v.clone().requires_grad_()), joined.push_back(v.clone().requires_grad_());
    }
    Tensor g_sum = values({6, 16}, 9, f32).to(device), g = values({6, 16}, 10, f32).to(device);
    auto end = [&](const TensorList& t) {
      return feed_forward_layer_norm(t[0], t[1], t[2], t[3], t[4], Activation::gelu_tanh, t[5], t[6], t[7]);
    };
    AddedNorm one = end(joined),
              two = add_layer_norm(
                  apart[5], feed_forward(apart[0], apart[1], apart[2], apart[3], apart[4], Activation::gelu_tanh),
                  apart[6], apart[7]);
    TensorList found = autograd::grad(TensorList{one.sum, one.normed}, joined, TensorList{g_sum, g}),
               wanted = autograd::grad(TensorList{two.sum, two.normed}, apart, TensorList{g_sum, g});
    for (std::size_t i = 0; i < found.size(); ++i)
      expect_near(doubles(found[i]), doubles(wanted[i]), 1e-5, "input " + std::to_string(i) + " on " + device.str());
  }
}

TEST(LinearLayerNorm, KeepsAnF32StreamUnderAutocast) {
  End end(4, 8, 16, f32, f32);
  auto guard = autocast(bf16);
  AddedNorm y = end.on(kCPU);
  EXPECT_EQ(y.sum.dtype(), f32);
  EXPECT_EQ(y.normed.dtype(), bf16);
}

TEST(LinearLayerNorm, SaysWhatIsWrong) {
  End end(4, 8, 16, f32, f32);
  EXPECT_THROW(linear_layer_norm(end.x, end.w, end.bias, zeros({4, 8}), {}, {}), ShapeError);
  EXPECT_THROW(linear_layer_norm(end.x, end.w, end.bias, zeros({16}), {}, {}), ShapeError);
  EXPECT_THROW(linear_layer_norm(end.x, end.w.t(), {}, end.residual, {}, {}), ShapeError);
  EXPECT_THROW(linear_layer_norm(end.x, end.w, end.bias, end.residual, zeros({4}), {}), ShapeError);
  EXPECT_THROW(linear_layer_norm(end.x, end.w, end.bias, end.residual, {}, zeros({1, 16})), ShapeError);
  EXPECT_THROW(linear_layer_norm(end.x, end.w, end.bias, end.residual.to(i32), {}, {}), DtypeError);
}

}  // namespace
}  // namespace etna
