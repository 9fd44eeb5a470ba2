#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/convolution.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/bf16_panels.h>
#include <etna/tensor/ops/matmul/gemm/internal/cpu/weight_panels.h>
#include <etna/tensor/ops/pooling/pooling.h>
#include <etna/tensor/ops/sorting/sorting.h>

#include "device/instruction_sets.h"
#include "ops/numerics.h"

// Sizes at which kernels of the CPU take other paths than for the samples of the conformance test.
namespace etna {
namespace {

using namespace numerics;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kCpuKernelsNaN = std::numeric_limits<double>::quiet_NaN();

class CpuKernels : public cpu::OnInstructionSets {};
INSTANTIATE_TEST_SUITE_P(By, CpuKernels, cpu::every_instruction_set(), cpu::instruction_set_name);

struct Pooled {
  double value = -kInfinity;
  std::int64_t place = -1;
};

/// The maximum of a window with loops: the first of equal ones, the last of several NaN.
Pooled pooled(const std::vector<double>& x, std::int64_t plane, std::int64_t h, std::int64_t w, std::int64_t oy,
              std::int64_t ox, std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t dilation) {
  Pooled best;
  for (std::int64_t i = 0; i < kernel; ++i) {
    for (std::int64_t j = 0; j < kernel; ++j) {
      const std::int64_t y = oy * stride - padding + i * dilation, c = ox * stride - padding + j * dilation;
      if (y < 0 || y >= h || c < 0 || c >= w) continue;
      const double v = x[static_cast<std::size_t>((plane * h + y) * w + c)];
      if (best.place < 0 || v > best.value || std::isnan(v)) best = {v, y * w + c};
    }
  }
  return best;
}

TEST_P(CpuKernels, MaxPoolFindsTheFirstMaximumAndTheLastNaN) {
  const std::int64_t h = 11, w = 41;
  for (DType dtype : {f32, bf16, f16, f64}) {
    for (std::int64_t channels : {1, 3, 37}) {
      Tensor x = round(values({2, channels, h, w}, 7) * 3.0);  // with ties
      x = where(gt(values({2, channels, h, w}, 8), 0.95), kCpuKernelsNaN, x);
      x = where(lt(values({2, channels, h, w}, 9), -0.7), -kInfinity, x);
      x = x.to(dtype);
      const std::vector<double> given = doubles(x);
      const Tensor last = x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
      for (std::int64_t stride : {1, 2, 3}) {
        for (std::int64_t dilation : {1, 2}) {
          for (const Tensor& input : {x, last}) {
            const MaxPooled y =
                max_pool2d_with_indices(input, 3, {.stride = {stride}, .padding = {1}, .dilation = {dilation}});
            const std::vector<double> got = doubles(y.values), places = doubles(y.indices);
            const std::int64_t oh = y.values.size(2), ow = y.values.size(3);
            for (std::int64_t p = 0; p < 2 * channels; ++p) {
              for (std::int64_t o = 0; o < oh * ow; ++o) {
                const Pooled want = pooled(given, p, h, w, o / ow, o % ow, 3, stride, 1, dilation);
                const auto at = static_cast<std::size_t>(p * oh * ow + o);
                ASSERT_EQ(places[at], want.place)
                    << name(dtype) << " plane " << p << " window " << o << " stride " << stride;
                ASSERT_TRUE(got[at] == want.value || (std::isnan(got[at]) && std::isnan(want.value)));
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(CpuKernels, Bf16PanelsMultiplyLikeTheirWidenedValues) {
  const std::int64_t k = 37, columns = 48;
  for (std::int64_t rows : {1, 3, 8, 13}) {
    const Tensor a = values({rows, k}, 1, bf16).to(f32), b = values({k, columns}, 2, bf16);
    cpu::WeightPanels<float, std::uint16_t> packed(1, k, columns);
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto to = packed.column(0, c);
      for (std::int64_t i = 0; i < k; ++i) to.first[i * to.step] = b.data<BFloat16>()[i * columns + c].bits;
    }
    std::vector<float> got(static_cast<std::size_t>(rows * columns));
    packed.multiply(0, packed.rows(a.data<float>(), k, rows), got.data(), columns);
    const std::vector<double> want = naive_matmul(a, b);
    expect_near(std::vector<double>(got.begin(), got.end()), want, 1e-5);
    // As on a processor that does not multiply bf16.
    cpu::multiply_panel(a.data<float>(), k, rows, k, packed.column(0, 0).first, columns, got.data(), columns);
    expect_near(std::vector<double>(got.begin(), got.end()), want, 1e-5);
  }
}

TEST(CpuKernelsOfSizes, CumsumOfALongRowIsExact) {
  const std::int64_t n = 100'003;
  const Tensor x = values({2, n}, 3, f32);
  const std::vector<double> in = doubles(x), forward = doubles(cumsum(x, 1)), back = doubles(cumsum(x, 1, true));
  for (std::int64_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      sum += in[static_cast<std::size_t>(row * n + i)];
      ASSERT_NEAR(forward[static_cast<std::size_t>(row * n + i)], sum, 1e-5 * (1 + std::abs(sum)));
    }
    sum = 0;
    for (std::int64_t i = n; i-- > 0;) {
      sum += in[static_cast<std::size_t>(row * n + i)];
      ASSERT_NEAR(back[static_cast<std::size_t>(row * n + i)], sum, 1e-5 * (1 + std::abs(sum)));
    }
  }
}

TEST(CpuKernelsOfSizes, ManyNumbersAddUpInFewPlaces) {
  const std::int64_t n = 70'001, places = 101;
  const Tensor source = values({n}, 4, f32), start = values({places}, 5, f32);
  std::vector<std::int64_t> index(n);
  std::vector<double> want = doubles(start);
  const std::vector<double> added = doubles(source);
  for (std::size_t i = 0; i < index.size(); ++i) {
    index[i] = static_cast<std::int64_t>(i * i % places);
    want[static_cast<std::size_t>(index[i])] += added[i];
  }
  const Tensor to = from_vector(index, {n});
  expect_near(doubles(scatter_add(start, 0, to, source)), want, 1e-6);
  expect_near(doubles(index_add(start, 0, to.to(i32), source)), want, 1e-6);
  index[50'000] = places;
  EXPECT_THROW(scatter_add(start, 0, from_vector(index, {n}), source), IndexError);
}

TEST(CpuKernelsOfSizes, TopkAgreesWithSort) {
  for (DType dtype : {f32, f64, bf16, i64, i32, u8}) {
    for (bool largest : {true, false}) {
      Tensor x = round(values({3, 5000}, 6) * (dtype == u8 ? 50.0 : 1000.0));
      if (dtype == u8) x = abs(x);
      if (is_floating(dtype)) x = where(gt(values({3, 5000}, 7), 0.99), kCpuKernelsNaN, x);
      x = x.to(dtype);
      for (std::int64_t k : {1, 2, 40, 600}) {
        const ValuesIndices got = topk(x, k, 1, largest), all = sort(x, 1, largest);
        EXPECT_EQ(got.indices.to_vector<std::int64_t>(), all.indices.slice(1, 0, k).to_vector<std::int64_t>())
            << name(dtype) << " " << k;
      }
    }
  }
  const Tensor equal = zeros({1, 100'000});
  EXPECT_EQ(topk(equal, 3, 1).indices.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(CpuKernelsOfSizes, TransposingCopiesMoveEveryElement) {
  for (DType dtype : {f64, f32, bf16, f16, i64, i32, i8, u8, boolean}) {
    for (std::int64_t rows : {1, 3, 33, 100}) {
      for (std::int64_t columns : {2, 5, 31, 67}) {
        const Tensor x = round(values({2, rows, columns}, 8) * 100.0).to(dtype);
        const Tensor y = x.transpose(1, 2).contiguous();
        const std::vector<double> from = doubles(x), to = doubles(y);
        for (std::int64_t m = 0; m < 2; ++m) {
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < columns; ++c) {
              ASSERT_EQ(to[static_cast<std::size_t>((m * columns + c) * rows + r)],
                        from[static_cast<std::size_t>((m * rows + r) * columns + c)]);
            }
          }
        }
        if (dtype == f32) {
          EXPECT_EQ(doubles(x.transpose(1, 2).to(bf16)), doubles(y.to(bf16)));
        }
        if (dtype == bf16) {
          EXPECT_EQ(doubles(x.transpose(1, 2).to(f32)), to);
        }
      }
    }
  }
}

struct Layer {
  const char* why;
  std::int64_t n, c, k, kernel, stride, size, groups = 1;
};

TEST(CpuKernelsOfSizes, ConvolutionsAgreeWithThoseInF64) {
  for (const Layer& l : {Layer{"split by channels", 2, 192, 320, 3, 1, 5}, Layer{"one image", 1, 128, 128, 3, 2, 9},
                         Layer{"few channels", 5, 3, 24, 5, 2, 23}, Layer{"one channel", 5, 1, 16, 3, 1, 12},
                         Layer{"odd channels", 3, 70, 90, 3, 1, 8}, Layer{"groups", 4, 32, 64, 3, 1, 9, 4},
                         Layer{"depthwise", 4, 48, 48, 3, 1, 9, 48}, Layer{"strided 1x1", 4, 64, 128, 1, 2, 14}}) {
    const Tensor x = values({l.n, l.c, l.size, l.size}, 1, bf16), b = values({l.k}, 3, bf16);
    const Tensor w = values({l.k, l.c / l.groups, l.kernel, l.kernel}, 2, bf16);
    const auto run = [&](DType dtype, bool channels_last) {
      TensorList in;
      for (const Tensor& t : {x, w}) {
        Tensor own = t.to(dtype).clone();
        if (channels_last) own = own.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
        in.push_back(own.detach().requires_grad_());
      }
      in.push_back(b.to(dtype).clone().requires_grad_());
      const Tensor y = conv2d(in[0], in[1], in[2], l.stride, l.kernel / 2, 1, l.groups);
      TensorList all = autograd::grad(TensorList{y}, in, TensorList{values(y.shape(), 4, bf16).to(dtype)});
      all.insert(all.begin(), y.detach());
      return all;
    };
    const TensorList want = run(f64, false);
    const double taps = static_cast<double>(l.c / l.groups * l.kernel * l.kernel);
    for (DType dtype : {f32, bf16}) {
      for (bool channels_last : {false, true}) {
        const TensorList got = run(dtype, channels_last);
        for (std::size_t i = 0; i < want.size(); ++i) {
          const double scale = i >= 2 ? std::sqrt(static_cast<double>(l.n * l.size * l.size)) : std::sqrt(taps);
          expect_near(doubles(got[i]), doubles(want[i]), dtype == f32 ? 1e-5 * scale : 0.01 * scale,
                      std::string(l.why) + ", " + std::string(name(dtype)) + ", result " + std::to_string(i));
        }
      }
    }
  }
}

}  // namespace
}  // namespace etna
