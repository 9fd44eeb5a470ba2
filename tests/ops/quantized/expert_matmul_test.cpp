#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/kernel.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/expert_linear.h>
#include <etna/tensor/ops/quantized/internal/expert_matmul.h>
#include <etna/tensor/ops/quantized/internal/experts.h>
#include <nn/on_device.h>
#include <ops/quantized/quantized_exact.h>

// Products grouped by expert: edges that samples of the conformance test do not reach.
namespace etna {
namespace {

using numerics::values;

Tensor choice_of(const std::vector<std::int32_t>& experts, std::int64_t chosen, Device device) {
  return from_vector(experts, {std::ssize(experts) / chosen, chosen}, device);
}

/// The same, one choice after the other, in f64.
Tensor one_by_one(const Tensor& x, const Tensor& w, const std::vector<std::int32_t>& experts, std::int64_t count) {
  const Tensor rows = x.to(kCPU, f64), all = w.to(kCPU, f64).reshape({count, -1, w.size(-1)});
  std::vector<Tensor> y;
  for (std::size_t i = 0; i < experts.size(); ++i)
    y.push_back(matmul(all.select(0, experts[i]), rows.select(0, static_cast<std::int64_t>(i))));
  return stack(y);
}

bool equal_bits(const Tensor& a, const Tensor& b) { return a.to_vector<double>() == b.to_vector<double>(); }

class ExpertMatmul : public OnDevice {
 protected:
  static Tensor there(Shape shape, unsigned seed, DType dtype = f32) { return values(shape, seed, dtype).to(device()); }
};

TEST_P(ExpertMatmul, MultipliesWhateverTheChoice) {
  for (const DType dtype : tried<DType>({f32, f16, bf16})) {
    for (const std::int64_t rows : tried<std::int64_t>({1, 33, 130})) {
      for (const bool alone : {false, true}) {  // all rows choose one expert
        std::vector<std::int32_t> experts;
        for (std::int64_t i = 0; i < rows; ++i) experts.push_back(alone ? 3 : static_cast<std::int32_t>(i * 7 % 5));
        const Tensor x = there({rows, 67}, 1, dtype), w = there({5 * 33, 67}, 2, dtype);
        const Tensor y = expert_matmul(x, w, choice_of(experts, 1, device()), 5);
        expect_near(y.squeeze(1), one_by_one(x, w, experts, 5), dtype == f32 ? 1e-4 : 0.05, dtype == f32 ? 0 : 0.01);
      }
    }
  }
}

TEST_P(ExpertMatmul, CountsAnExpertAsOftenAsARowChoosesIt) {
  const Tensor x = there({2, 8}, 1), w = there({3 * 4, 8}, 2), once = choice_of({1, 2}, 1, device()),
               twice = choice_of({1, 1, 2, 2}, 2, device());
  const Tensor y = expert_matmul(x, w, once, 3, {.summed = true});
  expect_near(expert_matmul(x, w, twice, 3, {.summed = true}), y * 2.0, 1e-6);
  expect_near(expert_weight_gradient(y, x, twice, 3), expert_weight_gradient(y, x, once, 3) * 2.0, 1e-5);
}

TEST_P(ExpertMatmul, GradientsOfExpertsThatNobodyChoseAreZero) {
  const Tensor expert = choice_of({6, 2, 2, 6, 2, 6}, 2, device());
  for (int run = 0; run < 3; ++run) {  // memory that others used before
    const Tensor garbage = full({9 * 20, 40}, std::numeric_limits<double>::quiet_NaN(), {f32, device()});
  }
  const Tensor w = there({9 * 20, 40}, 1).requires_grad_();
  expert_matmul(there({3, 40}, 2), w, expert, 9).sum().backward();
  const Tensor each = abs(w.grad()).reshape({9, -1}).sum(1);
  const std::vector<double> sums = each.to_vector<double>();
  for (std::size_t e = 0; e < sums.size(); ++e) {
    if (e == 2 || e == 6)
      EXPECT_GT(sums[e], 0) << e;
    else
      EXPECT_EQ(sums[e], 0) << e;
  }
}

TEST_P(ExpertMatmul, KeepsNaNInItsRowAndItsExpert) {
  const Tensor expert = choice_of({0, 1, 1, 2, 2, 3}, 2, device());
  const Tensor x = there({3, 16}, 1), w = there({4 * 8, 16}, 2), g = there({3, 2, 8}, 3);
  const auto with_nan = [](const Tensor& t) {
    const Tensor other = t.clone();
    other.slice(0, 1, 2).fill_(std::numeric_limits<double>::quiet_NaN());
    return other;
  };
  const Tensor y = expert_matmul(with_nan(x), w, expert, 4), good = expert_matmul(x, w, expert, 4);
  EXPECT_TRUE(isnan(y.slice(0, 1, 2)).all().item<bool>());
  EXPECT_TRUE(equal_bits(y.slice(0, 0, 1), good.slice(0, 0, 1)));
  EXPECT_TRUE(equal_bits(y.slice(0, 2, 3), good.slice(0, 2, 3)));
  for (const bool left : {false, true}) {
    const Tensor dw = expert_weight_gradient(left ? with_nan(g) : g, left ? x : with_nan(x), expert, 4),
                 wanted = expert_weight_gradient(g, x, expert, 4);
    EXPECT_TRUE(isnan(dw.slice(0, 8, 24)).all().item<bool>());  // of experts 1 and 2
    EXPECT_TRUE(equal_bits(dw.slice(0, 0, 8), wanted.slice(0, 0, 8)));
    EXPECT_TRUE(equal_bits(dw.slice(0, 24, 32), wanted.slice(0, 24, 32)));
  }
}

TEST_P(ExpertMatmul, RefusesNumbersOfNoExpert) {
  const Tensor x = there({2, 8}, 1), w = there({3 * 4, 8}, 2);
  for (const std::int32_t wrong : {3, -1}) {
    const Tensor expert = choice_of({1, wrong}, 1, device());
    EXPECT_THROW(expert_matmul(x, w, expert, 3).to_vector<double>(), IndexError);
    EXPECT_THROW(expert_weight_gradient(x, x, expert, 3).to_vector<double>(), IndexError);
  }
  const Tensor expert = choice_of({1, 0}, 1, device());
  EXPECT_THROW(expert_matmul(x, w, expert, 5), ShapeError);
  EXPECT_THROW(expert_matmul(x.slice(1, 0, 7), w, expert, 3), ShapeError);
  EXPECT_THROW(expert_matmul(x, w, expert.to(f32), 3), DtypeError);
  EXPECT_THROW(expert_matmul(x, w, expert, 0), ShapeError);
  EXPECT_THROW(expert_weight_gradient(x, x.slice(0, 0, 1), expert, 3), ShapeError);
}

TEST_P(ExpertMatmul, GivesTheSameBitsInEveryRunAndInCapturedSteps) {
  std::vector<std::int32_t> experts;
  for (std::int32_t i = 0; i < 300 * 2; ++i) experts.push_back(i * i % 7);
  const Tensor expert = choice_of(experts, 2, device()), x = there({300, 32}, 1), w = there({7 * 24, 32}, 2);
  const auto run = [&](const Tensor& choice) {
    const Tensor y = expert_matmul(x, w, choice, 7);
    return TensorList{y, expert_matmul(y, w, choice, 7, {.transposed = true, .summed = true}),
                      expert_weight_gradient(y, x, choice, 7)};
  };
  const TensorList wanted = run(expert);
  auto step = capture([&](const Tensor& choice) { return run(choice); }, {.device = device()});
  for (int i = 0; i < 3; ++i) {
    const TensorList again = run(expert), replayed = step(expert);
    for (std::size_t j = 0; j < wanted.size(); ++j) {
      EXPECT_TRUE(equal_bits(again[j], wanted[j])) << j;
      EXPECT_TRUE(equal_bits(replayed[j], wanted[j])) << j;
    }
  }
  // Another choice passes the same captured step.
  const Tensor other = (expert + 1) % 7;
  const TensorList replayed = step(other.to(i32)), eager = run(other.to(i32));
  for (std::size_t j = 0; j < eager.size(); ++j) EXPECT_TRUE(equal_bits(replayed[j], eager[j])) << j;
}

/// 4096 ones add up to 4096, which a sum in bf16 or f16 does not reach.
TEST_P(ExpertMatmul, AddsGradientsOfHalvesInF32) {
  for (const DType dtype : tried<DType>({bf16, f16})) {
    const TensorOptions options{dtype, device()};
    const Tensor expert = zeros({4096, 1}, {i32, device()}), x = ones({4096, 4}, options);
    const Tensor w = ones({2 * 3, 4}, options).requires_grad_();
    const Tensor dw = expert_weight_gradient(ones({4096, 3}, options), x, expert, 2);
    EXPECT_EQ(dw.dtype(), f32);
    expect_near(dw.slice(0, 0, 3), full({3, 4}, 4096, {f32}), 0);
    expert_matmul(x, w, expert, 2).sum().backward();
    EXPECT_EQ(w.grad().dtype(), dtype);
    expect_near(w.grad().slice(0, 0, 3).to(f32), full({3, 4}, 4096, {f32}), 0);
  }
}

TEST_P(ExpertMatmul, IsLoweredByAutocast) {
  const Tensor expert = choice_of({1, 0}, 1, device()), w = there({2 * 4, 8}, 1).requires_grad_();
  const auto mixed = autocast(bf16);
  const Tensor y = expert_matmul(there({2, 8}, 2), w, expert, 2);
  EXPECT_EQ(y.dtype(), bf16);
  y.sum().backward();
  EXPECT_EQ(w.grad().dtype(), f32);
}

/// Beside decoded weights on the CPU.
TEST_P(ExpertMatmul, DecodesEveryFormatForTransposedProducts) {
  std::vector<std::int32_t> experts;
  for (std::int32_t i = 0; i < 45 * 2; ++i) experts.push_back(i * 5 % 3);
  const Tensor expert = choice_of(experts, 2, kCPU), g = values({45, 2, 37}, 3, f32);
  const auto compare = [&](const std::string& format, std::int64_t columns, const ExpertMatmulOptions& options) {
    const QuantizedTensor w = quantized::weight(format, 3 * 37, columns);
    expect_near(expert_linear(g.to(device()), w.to(device()), expert.to(device()), 3, options),
                expert_matmul(g, dequantize(w), expert, 3, options), 1e-4);
  };
  for (const std::string& format :
       tried<std::string>({"Q4_K", "Q8_0", "Q4_0", "F16", "Q6_K", "BF16", "Q4_1", "Q5_0", "MXFP4", "Q5_1", "Q2_K",
                           "Q3_K", "Q5_K", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "IQ2_S", "IQ1_S"},
                          8))
    compare(format, 512, {.transposed = true});
  // Columns that are no multiple of what a workgroup owns.
  compare("Q4_K", 256 * 3, {.transposed = true, .summed = true});
  compare("Q8_0", 96, {.transposed = true, .summed = true});
}

TEST_P(ExpertMatmul, PassesGradientsThroughFrozenExperts) {
  const std::vector<std::int32_t> experts = {0, 1, 1, 2, 2, 2, 3, 0, 2, 1, 0, 3, 3, 1, 2, 0, 1, 0};
  const QuantizedTensor gate = quantized::weight("F32", 4 * 24, 32, 1).to(device()),
                        up = quantized::weight("F32", 4 * 24, 32, 2).to(device()),
                        down = quantized::weight("F32", 4 * 32, 24, 3).to(device());
  const auto gradients = [&](Device on, const auto& layer) {
    const Tensor x = values({9, 32}, 5, f32).to(on).requires_grad_(),
                 factor = values({9, 2}, 6, f32).to(on).requires_grad_();
    (layer(x, factor, choice_of(experts, 2, on)) * values({9, 32}, 4, f32).to(on)).sum().backward();
    return TensorList{x.grad(), factor.grad()};
  };
  const TensorList frozen = gradients(device(), [&](const Tensor& x, const Tensor& factor, const Tensor& expert) {
    return expert_feed_forward(x, gate, up, down, {expert, factor}, Activation::silu, 4);
  });
  const TensorList trained = gradients(kCPU, [&](const Tensor& x, const Tensor& factor, const Tensor& expert) {
    const auto decoded = [](const QuantizedTensor& w) { return dequantize(w.to(kCPU)); };
    const Tensor h = silu(expert_matmul(x, decoded(gate), expert, 4)) * expert_matmul(x, decoded(up), expert, 4);
    return (expert_matmul(h, decoded(down), expert, 4) * factor.unsqueeze(-1)).sum(1);
  });
  for (std::size_t i = 0; i < frozen.size(); ++i) expect_near(frozen[i], trained[i], 1e-4);
}

ETNA_ON_EVERY_DEVICE(ExpertMatmul);

}  // namespace
}  // namespace etna
