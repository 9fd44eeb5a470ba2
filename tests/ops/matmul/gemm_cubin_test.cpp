#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/kernel.h>
#include <etna/shaders/cubins.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops/activations/internal/table.h>
#include <etna/tensor/ops/matmul/gemm/internal/tensor_map.h>
#include <etna/tensor/ops/matmul/gemm/internal/tuned.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>

#include "ops/numerics.h"

namespace etna {
namespace {

using namespace numerics;
using GemmVariant = gemm::KernelVariant;

class GemmCubin : public testing::Test {
 protected:
  void SetUp() override {
    bool here = with_vulkan() && gpu::capabilities(kVulkan).cubin == 90 && !cubins::cubin_gemm_f32_nn.cubin.empty();
    if (!here) GTEST_SKIP() << "needs a Hopper GPU and a build with nvcc";
  }
};

Tensor by(GemmVariant variant, const Tensor& a, const Tensor& b, DType out) {
  const Override forced(&Overrides::gemm_variant, variant);
  return matmul(a, b, out);
}

/// Sizes of y [m, n] = a [m, k] b [k, n].
struct GemmCubinCase {
  std::int64_t m, n, k;
};
enum Lies { nn, nt, tn };
Tensor laid(const Tensor& x, bool transposed) { return transposed ? x.t().contiguous().t() : x; }

TEST_F(GemmCubin, AgreeWithF64ForEveryLayoutAndEdge) {
  for (DType t : {bf16, f16, f32}) {
    for (GemmCubinCase c : {GemmCubinCase{128, 128, 64},
                            {256, 256, 128},
                            {136, 264, 72},
                            {1000, 520, 200},
                            {8, 8, 8},
                            {264, 136, 4104},
                            {1, 512, 96},
                            {700, 1304, 8}}) {
      Tensor a = values({c.m, c.k}, 1, t), b = values({c.k, c.n}, 2, t);
      const std::vector<double> want = doubles(matmul(a.to(f64), b.to(f64)));
      const double grown = 1 + std::sqrt(static_cast<double>(c.k)) / 8;
      for (Lies lies : {nn, nt, tn}) {
        Tensor x = laid(on_gpu(a), lies == tn), y = laid(on_gpu(b), lies == nt);
        for (DType out : {t, f32}) {
          Tensor got = by(GemmVariant::cubin, x, y, out);
          EXPECT_EQ(got.dtype(), out);
          expect_near(doubles(got), want, tolerance(out) * grown,
                      std::string(name(t)) + " " + std::to_string(c.m) + "x" + std::to_string(c.n) + "x" +
                          std::to_string(c.k) + " layout " + std::to_string(lies));
        }
      }
    }
  }
}

TEST_F(GemmCubin, TakeRowsOfAnyLength) {
  for (DType t : {bf16, f32}) {
    Tensor g = values({520, 1333}, 1, t), w = values({1333, 200}, 2, t), x = values({520, 264}, 3, t);
    auto compare = [&](const Tensor& a, const Tensor& b, const char* what) {
      expect_near(doubles(by(GemmVariant::cubin, on_gpu(a), on_gpu(b), f32)), doubles(matmul(a.to(f64), b.to(f64))),
                  6 * tolerance(f32), what);
    };
    compare(g, w, "a in a copy");
    compare(g.t(), x, "a transposed in a copy");
    compare(x.t(), g, "b in a copy, y of odd rows");
  }
}

// Its logits are in padded rows: a multiple of four except for the last two.
TEST_F(GemmCubin, StoreTheLastOfAPaddedRow) {
  for (DType t : {bf16, f32}) {
    auto run = [&](Device device, DType dtype) {
      const Override forced(&Overrides::gemm_variant, GemmVariant::cubin);
      Tensor x = values({264, 136}, 1, t).to(dtype).to(device).requires_grad_(),
             w = values({1334, 136}, 2, t).to(dtype).to(device).requires_grad_();
      Tensor target = (abs(values({264}, 3, f64)) * 1333.0).to(i64).to(device);
      Tensor loss = linear_cross_entropy(x, w, target);
      loss.backward();
      return TensorList{loss.detach(), x.grad(), w.grad()};
    };
    TensorList got = run(kVulkan, t), want = run(kCPU, f64);
    for (std::size_t i = 0; i < got.size(); ++i) {
      expect_near(doubles(got[i]), doubles(want[i]), 10 * tolerance(t), "tensor " + std::to_string(i));
    }
  }
}

TEST_F(GemmCubin, WalkBatches) {
  for (DType t : {bf16, f32}) {
    Tensor a = values({3, 2, 72, 40}, 1, t), b = values({3, 2, 40, 88}, 2, t), one = values({40, 88}, 3, t);
    auto compare = [&](const Tensor& x, const Tensor& y, const char* what) {
      Tensor got = by(GemmVariant::cubin, on_gpu(x), on_gpu(y), t);
      expect_near(doubles(got), doubles(matmul(x.to(f64), y.to(f64))), 8 * tolerance(t), what);
    };
    compare(a, b, "two dimensions");
    compare(a.permute({1, 0, 2, 3}), b.permute({1, 0, 2, 3}), "that do not merge");
    compare(a, one, "one b for all");
    compare(one.t(), b, "one a for all");
  }
}

TEST_F(GemmCubin, FuseWhatThePlainKernelFuses) {
  for (DType t : {bf16, f32}) {
    for (const activations::Row& row : activations::kTable) {
      auto run = [&](GemmVariant variant) {
        const Override forced(&Overrides::gemm_variant, variant);
        Tensor x = on_gpu(values({200, 136}, 1, t)).requires_grad_(),
               w = on_gpu(values({264, 136}, 2, t)).requires_grad_(), b = on_gpu(values({264}, 3, t)).requires_grad_();
        Tensor y = linear(x, w, b, row.activation);
        (y.to(f32) * on_gpu(values({200, 264}, 4, f32))).sum().backward();
        return TensorList{y, x.grad(), w.grad(), b.grad()};
      };
      TensorList got = run(GemmVariant::cubin), want = run(GemmVariant::plain);
      for (std::size_t i = 0; i < got.size(); ++i) {
        expect_near(doubles(got[i]), doubles(want[i]), 10 * tolerance(t), row.op + (", tensor " + std::to_string(i)));
      }
    }
  }
}

// With 392 columns results leave from registers, with 396 through shared memory. Gradients are compared with the plain
// kernel's: the derivative of hardswish jumps at 3, so a preactivation that is rounded across it is no error.
TEST_F(GemmCubin, ApplyActivationsInEveryTile) {
  const std::int64_t m = 328, k = 136;
  for (DType t : {bf16, f16}) {
    const double within = tolerance(t) * (1 + std::sqrt(static_cast<double>(k)) / 8);
    for (std::int64_t n : {392, 396}) {
      Tensor x = values({m, k}, 1, t), w = values({n, k}, 2, t), b = values({n}, 3, t), at = values({m, n}, 4, t) * 4.0,
             back = values({k, n}, 5, t);
      for (const activations::Row& row : activations::kTable) {
        auto run = [&](Device device, DType dtype) {
          auto leaf = [&](const Tensor& of) { return of.to(dtype).to(device).requires_grad_(); };
          Tensor xs = leaf(x), ws = leaf(w), bs = leaf(b);
          Tensor y = linear(xs, ws, bs, row.activation);
          (y.to(promote(f32, dtype)) * values({m, n}, 6, promote(f32, dtype)).to(device)).sum().backward();
          Tensor through = matmul_derivative(x.to(dtype).to(device), back.to(dtype).to(device), at.to(dtype).to(device),
                                             row.activation);
          return TensorList{y.detach(), through, xs.grad(), ws.grad(), bs.grad()};
        };
        const TensorList exact = run(kCPU, f64), plain = [&] {
          const Override forced(&Overrides::gemm_variant, GemmVariant::plain);
          return run(kVulkan, t);
        }();
        for (std::size_t tile = 0; tile < gemm::cubin_tiles().size(); ++tile) {
          gemm::ForcedConfig forced({GemmVariant::cubin, {tile, 1}});
          const TensorList got = run(kVulkan, t);
          for (std::size_t i = 0; i < got.size(); ++i) {
            expect_near(doubles(got[i]), doubles((i < 2 ? exact : plain)[i]), i < 2 ? within : 10 * tolerance(t),
                        std::string(name(t)) + " " + row.op + ", tile " + std::to_string(tile) + ", n " +
                            std::to_string(n) + ", tensor " + std::to_string(i));
          }
        }
      }
    }
  }
}

TEST_F(GemmCubin, KeepInfinitiesAndNanThroughActivations) {
  for (DType t : {bf16, f16}) {
    Tensor x = values({136, 264}, 1, f32), w = values({392, 264}, 2, t), b = values({392}, 3, t);
    x.mutable_data<float>()[3 * 264 + 40] = std::numeric_limits<float>::infinity();
    x.mutable_data<float>()[70 * 264 + 100] = std::numeric_limits<float>::quiet_NaN();
    x = x.to(t);
    for (std::size_t tile = 0; tile < gemm::cubin_tiles().size(); ++tile) {
      gemm::ForcedConfig forced({GemmVariant::cubin, {tile, 1}});
      const std::string what = std::string(name(t)) + " tile " + std::to_string(tile);
      expect_near(doubles(linear(on_gpu(x), on_gpu(w), on_gpu(b), Activation::relu)),
                  doubles(linear(x.to(f64), w.to(f64), b.to(f64), Activation::relu)), 4 * tolerance(t), what);
      for (const activations::Row& row : activations::kTable) {
        const std::vector<double> got = doubles(linear(on_gpu(x), on_gpu(w), on_gpu(b), row.activation));
        for (std::size_t i = 70 * 392; i < 71 * 392; ++i) ASSERT_TRUE(std::isnan(got[i])) << what << " " << row.op;
      }
    }
  }
}

// A table may name the tile of 192 columns for a class of gemms of which one cannot have it.
TEST_F(GemmCubin, TakeAnotherTileIfTheWidestDoesNotSuit) {
  for (DType t : {bf16, f16, f32}) {
    for (std::int64_t n : {132, 136}) {
      Tensor a = values({200, 1024}, 1, t), b = values({1024, n}, 2, t);
      Tensor x = on_gpu(a), y = on_gpu(b.t().contiguous()).t();
      const std::vector<double> want = doubles(matmul(a.to(f64), b.to(f64)));
      for (std::int64_t split_k : {1, 3, 1000}) {
        gemm::ForcedConfig forced({GemmVariant::cubin, {2, split_k}});
        for (DType out : {t, f32})
          expect_near(doubles(matmul(x, y, out)), want, 9 * tolerance(out), std::string(name(t)) + std::to_string(n));
      }
    }
  }
}

TEST_F(GemmCubin, GiveTheSameBitsAgainAndCaptured) {
  for (DType t : {bf16, f32}) {
    Tensor a = on_gpu(values({520, 4096}, 1, t)), b = on_gpu(values({4096, 136}, 2, t));
    auto gram = [&](const Tensor& x) {
      Tensor half = by(GemmVariant::cubin, x, b, t);  // k is split
      return by(GemmVariant::cubin, half.t(), half, DType::f32);
    };
    const std::vector<double> first = doubles(gram(a));
    auto captured = capture([&](const Tensor& x) { return gram(x); }, {.device = kVulkan});
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(doubles(gram(a)), first) << i;
      EXPECT_EQ(doubles(captured(a)), first) << i;
    }
  }
}

/// The largest and the root mean square error, in units of Σ|a||b| · 2^-24.
struct Errors {
  double largest = 0, mean = 0;
};
Errors errors(const Tensor& y, const Tensor& a, const Tensor& b) {
  std::vector<double> got = doubles(y), want = doubles(matmul(a.to(f64), b.to(f64))),
                      size = doubles(matmul(abs(a.to(f64)), abs(b.to(f64))));
  Errors e;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double error = size[i] == 0 ? 0 : std::abs(got[i] - want[i]) / size[i] * 16777216.0;
    if (!(error <= e.largest)) e.largest = error;
    e.mean += error * error / static_cast<double>(got.size());
  }
  e.mean = std::sqrt(e.mean);
  return e;
}

/// Plain f32: one multiply-add after the other, each rounded to nearest.
Tensor chain(const Tensor& a, const Tensor& b) {
  const std::int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  Tensor y = zeros({m, n});
  float* to = y.mutable_data<float>();
  const float *x = a.data<float>(), *z = b.data<float>();
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t l = 0; l < k; ++l) {
      const double left = x[i * k + l];
      for (std::int64_t j = 0; j < n; ++j) {
        to[i * n + j] =
            static_cast<float>(static_cast<double>(to[i * n + j]) + left * static_cast<double>(z[l * n + j]));
      }
    }
  }
  return y;
}

/// Magnitudes spread over 2^±bits; positive, or multiplied by random numbers in [-1, 1).
Tensor spread(Shape shape, std::uint64_t seed, double bits, bool positive, double scale = 1) {
  Tensor sizes = exp(values(shape, seed, f64) * (bits * 0.6931471805599453)) * scale;
  Tensor sign = values(shape, seed + 17, f64);
  return (positive ? sizes : sizes * sign).to(f32);
}
// From 256 terms on, the error is no larger than that of a chain of f32 multiply-adds. A single step of 32 keeps the
// matrix units' truncated sums: the error is then up to two and a half times as large, which is still less than 2.5
// units (docs/decisions/005-f32-by-bf16-parts.md).
TEST_F(GemmCubin, AreAsExactAsF32) {
  struct Kind {
    const char* name;
    Tensor a, b;
  };
  const std::int64_t m = 64, n = 256;
  for (std::int64_t k : {32, 256, 2048, 16384}) {
    auto cancelling = [&] {
      // Pairs that cancel except for a thousandth.
      Tensor x = values({m, k / 2}, 5, f64), y = (x * -1.0) + values({m, k / 2}, 6, f64) * 1e-3;
      Tensor z = values({k / 2, n}, 7, f64);
      return Kind{"cancelling", cat({x, y}, 1).to(f32), cat({z, z}, 0).to(f32)};
    };
    for (const Kind& kind :
         {Kind{"uniform", values({m, k}, 1, f32), values({k, n}, 2, f32)},
          Kind{"positive", abs(values({m, k}, 1, f32)), abs(values({k, n}, 2, f32))},
          Kind{"spread over 2^±20", spread({m, k}, 1, 20, false), spread({k, n}, 3, 20, false)},
          Kind{"positive, 2^±20", spread({m, k}, 1, 20, true), spread({k, n}, 3, 20, true)}, cancelling(),
          Kind{"small: 2^-80", spread({m, k}, 1, 10, false, std::exp2(-80)), spread({k, n}, 3, 10, false)},
          Kind{"nearly denormal", spread({m, k}, 1, 8, false, std::exp2(-115)), spread({k, n}, 3, 10, false)},
          Kind{"denormal results", spread({m, k}, 1, 4, false, std::exp2(-70)),
               spread({k, n}, 3, 4, false, std::exp2(-60))}}) {
      Tensor a = on_gpu(kind.a), b = on_gpu(kind.b);
      // GPUs may treat denormals as 0, and the plain kernel does.
      const bool denormal = std::string_view(kind.name).find("denormal") != std::string_view::npos;
      Errors exact = errors(by(GemmVariant::cubin, a, b, f32), kind.a, kind.b),
             f32s = errors(denormal ? by(GemmVariant::plain, a, b, f32) : chain(kind.a, kind.b), kind.a, kind.b);
      std::printf("k %6d %-20s cubin %9.3f %9.4f   f32 %9.3f %9.4f\n", static_cast<int>(k), kind.name, exact.largest,
                  exact.mean, f32s.largest, f32s.mean);
      const double wider = k < 256 ? 2.5 : 1;
      EXPECT_LE(exact.largest, f32s.largest * (k < 256 ? 2 : 1.1) + 0.5) << kind.name << " " << k;
      EXPECT_LE(exact.mean, f32s.mean * wider + 0.05) << kind.name << " " << k;
      if (denormal) continue;
      EXPECT_LE(exact.largest, 9) << kind.name << " " << k << ": units do not grow with k";
      EXPECT_LE(exact.mean, 2.5) << kind.name << " " << k << ": units do not grow with k";
    }
  }
}

TEST_F(GemmCubin, KeepInfinitiesNanAndTheHuge) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Tensor a = values({136, 264}, 1, f32), b = values({264, 136}, 2, f32);
  auto set = [](Tensor& x, std::int64_t row, std::int64_t column, float value) {
    x.mutable_data<float>()[row * x.size(1) + column] = value;
  };
  set(a, 3, 40, inf), set(a, 70, 100, nan), set(a, 99, 200, 3e38f), set(a, 100, 7, 1e-42f), set(b, 150, 20, -inf);
  set(b, 200, 77, 2.0f), set(b, 7, 9, 3e38f);
  // In column 9 the denormal is multiplied by 3e38 and counts: the reference is f64, not an f32 that flushes it.
  std::vector<double> got = doubles(by(GemmVariant::cubin, on_gpu(a), on_gpu(b), f32)),
                      want = doubles(matmul(a.to(f64), b.to(f64)).to(f32));
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i;
    } else if (std::isinf(want[i])) {
      EXPECT_EQ(got[i], want[i]) << i;
    } else {
      EXPECT_NEAR(got[i], want[i], 1e-5 * (1 + std::abs(want[i]))) << i;
    }
  }
}

TEST(TensorMap, NeedsSixteenBytes) {
  gemm::TiledMatrix x{.at = {0x1000, {0x1000, 2 * 77 * 1000}},
                      .dtype = bf16,
                      .columns = 1000,
                      .rows = 77,
                      .leading = 1000,
                      .box_rows = 128};
  auto map = gemm::tensor_map(x);
  ASSERT_TRUE(map);
  std::array<std::uint64_t, 16> words;
  ASSERT_EQ(map->bytes().size(), sizeof(words));
  std::memcpy(words.data(), map->bytes().data(), sizeof(words));
  EXPECT_EQ(words[0], 0x1000u);
  EXPECT_EQ(words[1], std::uint64_t{2000 / 16} << 32 | 0x46520)
      << "distance of rows, read-ahead, swizzle, bf16, three dimensions";
  EXPECT_EQ(words[4], 76ull << 32 | 999u);
  ASSERT_EQ(map->reads().size(), 1u);
  EXPECT_EQ(map->reads()[0], x.at.range);
  x.leading = 1001;
  EXPECT_FALSE(gemm::tensor_map(x));
  x.leading = 1008, x.at.address = 0x1008;
  EXPECT_FALSE(gemm::tensor_map(x));
}

}  // namespace
}  // namespace etna
