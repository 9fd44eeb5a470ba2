#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/convolution/convolution.h>
#include <etna/tensor/ops/convolution/internal/geometry.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>
#include <nn/on_device.h>

namespace etna {
namespace {

/// The call throws an error that holds these words.
void expect_error(const std::function<void()>& call, const std::string& words) {
  std::string what = "no error";
  try {
    call();
  } catch (const Error& error) {
    what = error.what();
  }
  EXPECT_NE(what.find(words), std::string::npos) << what << " lacks " << words;
}

TEST(ConvolutionArguments, AreCheckedByName) {
  const Tensor x = zeros({2, 4, 5, 5}), w = zeros({6, 4, 3, 3});
  expect_error([&] { conv2d(zeros({5}), w); }, "conv2d: x [5] has 1 dimensions");
  expect_error([&] { conv1d(zeros({2, 4, 5}), w); }, "conv1d: the weight");
  expect_error([&] { conv2d(x, zeros({6, 3, 3, 3})); }, "4 channels in 1 groups");
  expect_error([&] { conv2d(x, w, {}, 1, 0, 1, 3); }, "4 channels in 3 groups");
  expect_error([&] { conv2d(x, w, {}, 1, 0, 1, 0); }, "groups is 0");
  expect_error([&] { conv2d(x, w, zeros({4})); }, "it must be [6]");
  expect_error([&] { conv2d(x, w, {}, 0); }, "stride [0] must be at least 1");
  expect_error([&] { conv2d(x, w, {}, 1, -1); }, "padding [-1] must be at least 0");
  expect_error([&] { conv2d(x, w, {}, {1, 1, 1}); }, "has 3 numbers, it takes 2");
  expect_error([&] { conv2d(x, w, {}, 2, "same"); }, "needs stride 1");
  expect_error([&] { conv2d(x, w, {}, 1, "full"); }, "not \"full\"");
  expect_error([&] { conv2d(x, w, {}, 1, 0, 3); }, "the kernel reaches over 7 elements");
  expect_error([&] { conv2d(x.to(i32), w); }, "operand 1 holds i32");
  expect_error([&] { conv2d(Tensor(), w); }, "conv2d");
  expect_error([&] { conv_transpose2d(x, w); }, "conv_transpose2d: x");
  expect_error([&] { conv_transpose2d(zeros({2, 6, 5, 5}), w, {}, 2, 0, 2); }, "output_padding");
  expect_error([&] { unfold(x, {6, 2}); }, "kernel reaches over 6");
  expect_error([&] { fold(zeros({2, 7, 4}), 3, 2); }, "a multiple of 4");
  expect_error([&] { unfold(x.to(i64), 2); }, "unfold: x holds i64");
  expect_error([&] { conv2d(x, w, {}, 1, std::int64_t{1} << 62); }, "must be at most");
}

class Convolution : public OnDevice {};
ETNA_ON_EVERY_DEVICE(Convolution);

TEST_P(Convolution, KeepsNaNAndInfinityWhereTheKernelReachesThem) {
  Tensor x = zeros({1, 1, 4, 4});
  x.mutable_data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  x.mutable_data<float>()[15] = std::numeric_limits<float>::infinity();
  const Tensor y = conv2d(x.to(device()), ones({1, 1, 2, 2}, {f32, device()}));
  const std::vector<float> values = y.to_vector<float>();
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_TRUE(std::isinf(values[8]));
  for (std::size_t i = 1; i < 8; ++i) EXPECT_EQ(values[i], 0.0f);
}

TEST_P(Convolution, TakesStridedViewsAndAnEmptyBatch) {
  manual_seed(3);
  const Tensor x = randn({2, 6, 10, 4}, {f32, device()}), w = randn({3, 3, 3, 3}, {f32, device()});
  const Tensor view = x.permute({0, 1, 3, 2}).slice(1, 0, 6, 2).slice(3, 1, 9);
  EXPECT_EQ(conv2d(view, w, {}, 1, 1).to_vector<float>(), conv2d(view.contiguous(), w, {}, 1, 1).to_vector<float>());
  EXPECT_EQ(conv2d(zeros({0, 3, 8, 8}, {f32, device()}), w).shape(), Shape({0, 3, 6, 6}));
  // Of no channels, or of no images, nothing but the bias remains.
  const Tensor bias = ones({3}, {f32, device()});
  const Tensor only_bias = conv2d(zeros({1, 0, 3, 3}, {f32, device()}), zeros({3, 0, 2, 2}, {f32, device()}), bias);
  EXPECT_EQ(only_bias.to_vector<float>(), std::vector<float>(12, 1.0f));
  Tensor weight = w.clone().requires_grad_();
  sum(conv2d(zeros({0, 3, 8, 8}, {f32, device()}), weight)).backward();
  EXPECT_EQ(weight.grad().to_vector<float>(), std::vector<float>(81, 0.0f));
}

TEST_P(Convolution, ByPartsOfTheImagesGivesTheWhole) {
  manual_seed(4);
  const Tensor x = randn({5, 3, 6, 6}, {f32, device()}).requires_grad_(),
               w = randn({5, 3, 3, 3}, {f32, device()}).requires_grad_(), g = randn({5, 5, 3, 3}, {f32, device()});
  auto run = [&] {
    const Tensor y = conv2d(x, w, {}, 2, 1);
    TensorList all = autograd::grad(TensorList{y}, TensorList{x, w}, TensorList{g});
    all.push_back(y.detach());
    return all;
  };
  const TensorList whole = run();
  const Override scope(&Overrides::convolution_scratch, std::int64_t{3000});
  const TensorList parts = run();
  for (std::size_t i = 0; i < whole.size(); ++i) expect_near(parts[i], whole[i], 1e-5, 1e-5);
}

TEST_P(Convolution, UnderAutocastComputesInBf16AndGivesF32Gradients) {
  manual_seed(5);
  const Tensor x = randn({2, 4, 5, 5}, {f32, device()});
  Tensor w = randn({6, 4, 3, 3}, {f32, device()}).requires_grad_();
  const Tensor bias = randn({6}, {f32, device()}).requires_grad_();
  Tensor y;
  {
    auto mixed = autocast(bf16);
    y = conv2d(x, w, bias, 1, 1);
  }
  EXPECT_EQ(y.dtype(), bf16);
  sum(y.to(f32)).backward();
  EXPECT_EQ(w.grad().dtype(), f32);
  EXPECT_EQ(bias.grad().dtype(), f32);
  expect_near(y.to(f32), conv2d(x, w, bias, 1, 1), 0.15, 0.02);
}

/// A convolution whose gradients are compared; of conv_transpose2d where `output_padding` is not empty.
struct ConvolutionCase {
  const char* name;
  DType dtype;
  Shape x, weight;
  Dims stride, padding, output_padding = {};
  bool channels_last = false;

  Tensor run(const Tensor& in, const Tensor& w, const Tensor& bias) const {
    if (output_padding.rank() > 0) return conv_transpose2d(in, w, bias, stride, padding, output_padding);
    return conv2d(in, w, bias, stride, padding);
  }
  /// y, and the gradients of x, weight and bias, of random numbers of the dtype computed as `compute`.
  TensorList results(DType compute, Device device) const {
    manual_seed(7);
    auto of = [&](const Shape& shape) { return randn(shape).to(dtype).to(compute).to(device).requires_grad_(); };
    const Tensor w = of(weight), bias = of({output_padding.rank() > 0 ? weight[1] : weight[0]});
    Tensor in = of(x);
    if (channels_last) in = in.detach().permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}).requires_grad_();
    Tensor y = run(in, w, bias);
    const Tensor g = randn(y.shape()).to(dtype).to(compute).to(device);
    TensorList all = autograd::grad(TensorList{y}, TensorList{in, w, bias}, TensorList{g});
    all.push_back(y.detach());
    return all;
  }
};

// Where the stride divides x's sizes, x's gradient is computed by phases; a 1x1 kernel reads some pixels only.
const ConvolutionCase kStrided[] = {
    {"3x3 by 2", bf16, {2, 16, 10, 12}, {8, 16, 3, 3}, 2, 1},
    {"7x7 by 2", f16, {2, 8, 8, 12}, {8, 8, 7, 7}, 2, 3},
    {"7x7 by 3", f16, {1, 8, 12, 9}, {4, 8, 7, 7}, 3, 2},
    {"2x2 by 2, three channels", f32, {2, 3, 6, 8}, {5, 3, 2, 2}, 2, 0},
    {"3x3 by 3, five channels", f32, {1, 5, 6, 9}, {4, 5, 3, 3}, 3, 0},
    {"more padding than kernel", f16, {2, 8, 6, 4}, {4, 8, 3, 3}, 2, 4},
    {"odd sizes", f16, {2, 8, 11, 9}, {4, 8, 3, 3}, 2, 1},
    {"a stride in one direction", f16, {1, 8, 6, 5}, {4, 8, 3, 3}, {2, 1}, 1},
    {"a kernel below the stride", f16, {1, 8, 6, 8}, {4, 8, 1, 4}, 2, 0},
    {"transposed", f16, {2, 8, 5, 4}, {8, 16, 3, 3}, 2, 1, 1},
    {"transposed, three channels", f32, {2, 6, 3, 4}, {6, 3, 2, 2}, 2, 0, 0},
    {"1x1 by 2", f16, {2, 8, 7, 6}, {4, 8, 1, 1}, 2, 0},
    {"1x1 by 3", f32, {2, 3, 7, 9}, {4, 3, 1, 1}, {3, 2}, 0},
    {"1x1 by 2, channels last", f16, {2, 8, 7, 6}, {4, 8, 1, 1}, 2, 0, {}, true},
    {"1x1 by 2, transposed", f32, {2, 4, 3, 4}, {4, 8, 1, 1}, 2, 0, 1},
};

void expect_results_of_f64(const ConvolutionCase& c, Device device) {
  SCOPED_TRACE(c.name);
  const TensorList got = c.results(c.dtype, device), wanted = c.results(f64, kCPU);
  const double error = c.dtype == f32 ? 2e-6 : c.dtype == f16 ? 1.5e-3 : 1e-2;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double most = max(abs(wanted[i])).item<double>();
    expect_near(got[i].to(kCPU).to(f64), wanted[i], error / 4 * most, error);
  }
}

TEST_P(Convolution, WithAStrideGivesTheResultsOfF64) {
  for (const ConvolutionCase& c : kStrided) expect_results_of_f64(c, device());
}

TEST_P(Convolution, WithAStrideTakesFewDispatches) {
  if (device().is_cpu()) GTEST_SKIP() << "counts dispatches";
  for (const ConvolutionCase& c : {ConvolutionCase{"2x2", f32, {8, 3, 32, 16}, {5, 3, 2, 2}, 2, 0},
                                   ConvolutionCase{"3x3", f16, {8, 16, 32, 16}, {8, 16, 3, 3}, 2, 1},
                                   ConvolutionCase{"1x1", f32, {8, 16, 32, 18}, {8, 16, 1, 1}, 2, 0}}) {
    const Tensor x = randn(c.x, {f32, device()}).to(c.dtype).requires_grad_(),
                 w = randn(c.weight, {f32, device()}).to(c.dtype), y = c.run(x, w, {}), g = y.detach().contiguous();
    g.to(f32).to_vector<float>();
    const auto before = gpu::queue_stats(device()).dispatches;
    autograd::grad(TensorList{y}, TensorList{x}, TensorList{g})[0].to(f32).to_vector<float>();
    EXPECT_LE(gpu::queue_stats(device()).dispatches - before, 12u) << c.name;
  }
}

TEST_P(Convolution, OnHopperGivesTheResultsOfF64) {
  if (device().is_cpu() || gpu::capabilities(device()).cubin != 90) GTEST_SKIP() << "needs a Hopper GPU";
  const Override forced(&Overrides::gemm_variant, gemm::KernelVariant::cubin);
  const ConvolutionCase cases[] = {
      {"few channels of y", bf16, {2, 64, 20, 18}, {48, 64, 3, 3}, 1, 1},
      {"few channels of y, f16 by 2", f16, {3, 128, 21, 18}, {64, 128, 3, 3}, 2, 1},
      {"few channels of y, f32", f32, {2, 64, 20, 18}, {48, 64, 3, 3}, 1, 1},
      {"weights in shared memory", bf16, {11, 64, 56, 56}, {64, 64, 3, 3}, 1, 1},
      {"3x3 by 2, of phases", bf16, {2, 64, 20, 16}, {128, 64, 3, 3}, 2, 1},
      {"7x7 by 2 of three channels", f16, {2, 3, 32, 24}, {64, 3, 7, 7}, 2, 3},
      {"5x5 by 3, more padding", bf16, {2, 64, 12, 9}, {64, 64, 5, 5}, 3, 6},
      {"transposed", bf16, {2, 64, 9, 8}, {64, 3, 4, 4}, 2, 1, 0},
  };
  for (const ConvolutionCase& c : cases) expect_results_of_f64(c, device());
}

TEST_P(Convolution, WithAStrideCapturedGivesEagerBits) {
  const ConvolutionCase& c = kStrided[0];
  manual_seed(8);
  const Tensor x = randn(c.x, {f32, device()}).to(bf16).requires_grad_(), w = randn(c.weight, {f32, device()}).to(bf16);
  auto gradient = [&] {
    const Tensor y = c.run(x, w, {});
    return autograd::grad(TensorList{y}, TensorList{x}, TensorList{y.detach()})[0].to(f32);
  };
  const std::vector<float> eager = gradient().to_vector<float>();
  auto step = capture(gradient, {.device = device()});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step().to_vector<float>(), eager);
}

TEST_P(Convolution, CapturedGivesEagerBits) {
  manual_seed(6);
  const Tensor x = randn({2, 3, 6, 5}, {f32, device()});
  Tensor w = randn({4, 3, 3, 3}, {f32, device()}).requires_grad_();
  auto body = [&] {
    const Tensor y = relu(conv2d(x, w, {}, 2, 1));
    return autograd::grad(TensorList{sum(y * y)}, TensorList{w}, TensorList{})[0];
  };
  const std::vector<float> eager = body().to_vector<float>();
  auto step = capture(body, {.device = device()});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step().to_vector<float>(), eager);
}

}  // namespace
}  // namespace etna
