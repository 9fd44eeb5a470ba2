#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "hopper/attention_fixture.h"
// Behind the emulator. Its comparisons of signs are CUDA's.
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "../../shaders/sm90/gemm16.cuh"

// How gemms on Hopper GPUs store 16-bit results, on the CPU.
namespace hopper {
namespace {

constexpr int kM = 300, kN = 328, kK = 136;
constexpr U32 kGelu = 2, kGeluTanh = 3;  ///< in tables/activations.def

std::vector<std::uint16_t> random_matrix(int count, unsigned seed, float size = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<std::uint16_t> all(static_cast<std::size_t>(count));
  for (std::uint16_t& x : all) x = emulated::to_bf16(normal(random));
  return all;
}
double value_of(const std::vector<std::uint16_t>& x, int i) {
  return emulated::from_bf16(x[static_cast<std::size_t>(i)]);
}

double gelu(double x, U32 activation) {
  if (activation == kGelu) return x * (1 + std::erf(x * std::sqrt(0.5))) / 2;
  return x / (1 + std::exp(-x * (1.5957691216057308 + 0.07135481627260025 * x * x)));
}
double gelu_derivative(double x, U32 activation) {
  const double step = 1e-4;
  return (gelu(x + step, activation) - gelu(x - step, activation)) / (2 * step);
}

/// What is done with sums on their way to memory.
enum class Ending {
  activation,  ///< y = gelu(a · bᵀ + bias)
  kept_sums,   ///< the same, with the sums before it in aux
  derivative,  ///< y = (a · b) · gelu'(aux)
  bias,        ///< y = a · bᵀ + bias
  residual,    ///< y = a · bᵀ + bias + residual
  logits,      ///< y = a · bᵀ, of which kLogits columns are logits, with the states of their softmax
};
constexpr int kLogits = kN - 5;

/// What the kernel computes, and what it should.
struct Product {
  std::vector<std::uint16_t> y, aux;
  std::vector<float> states;
  std::vector<double> wanted, wanted_aux;
};

/// @param nan_row a row of a that gets a NaN
template <bool TOGETHER, Ending ENDING, int COLUMNS>
Product run(U32 activation, U32 blocks, unsigned seed, int nan_row = -1) {
  constexpr bool derivative = ENDING == Ending::derivative, keeps = ENDING == Ending::kept_sums,
                 activates = keeps || ENDING == Ending::activation, logits = ENDING == Ending::logits;
  using Gemm = Gemm16<false, TOGETHER, true, !derivative, COLUMNS>;
  auto a = random_matrix(kM * kK, 1);
  if (nan_row >= 0) a[static_cast<std::size_t>(nan_row * kK)] = 0x7FC0;
  const auto b = random_matrix(kN * kK, 2, 0.2f), bias = random_matrix(kN, 3), more = random_matrix(kM * kN, 4);
  Product made{std::vector<std::uint16_t>(kM * kN, 0x7FC0), std::vector<std::uint16_t>(kM * kN, 0x7FC0), {}, {}, {}};
  if (derivative) made.aux = more;
  Parameters p{};
  p.a = {a.data(), kK, kM, 1, 1, kK, 0, 0, Gemm::kRows};
  p.b = derivative ? TensorMap{b.data(), kN, kK, 1, 1, kN, 0, 0, Gemm::kStep}
                   : TensorMap{b.data(), kK, kN, 1, 1, kK, 0, 0, Gemm::kColumns};
  p.m = kM, p.n = kN;
  p.tiles_m = (kM + Gemm::kRows - 1) / Gemm::kRows, p.tiles_n = (kN + Gemm::kColumns - 1) / Gemm::kColumns;
  p.matrices = p.splits = 1;
  p.steps = p.steps_a_split = (kK + Gemm::kStep - 1) / Gemm::kStep, p.group = 8;
  if (logits) made.states.resize(kM * p.tiles_n * 3), p.logits = kLogits;
  p.epilogue.y = made.y.data(), p.epilogue.bias = bias.data(), p.epilogue.residual = more.data();
  p.epilogue.aux = logits ? static_cast<void*>(made.states.data()) : made.aux.data();
  p.epilogue.ldy = p.epilogue.ld_aux = p.epilogue.ld_residual = kN, p.epilogue.scale = 1;
  p.kinds = {0, kBF16, kBF16, kBF16, kBF16, 8};
  if (derivative) p.kinds.flags = activation << 6 | kDerivative;
  if (activates) p.kinds.flags = activation << 6 | kBias | (keeps ? kPreactivation : 0);
  if (ENDING == Ending::bias) p.kinds.flags = kBias;
  if (ENDING == Ending::residual) p.kinds.flags = kBias | kResidual;
  emulated::launch(blocks, Gemm::kThreads, Gemm::kSharedBytes, 2, seed,
                   [&](char* memory) { Gemm::run(p, memory, typename Gemm::FetchMatrices{p}); });
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      double sum = 0;
      for (int k = 0; k < kK; ++k) sum += value_of(a, i * kK + k) * value_of(b, derivative ? k * kN + j : j * kK + k);
      if (!derivative && !logits) sum += value_of(bias, j);
      if (keeps) made.wanted_aux.push_back(sum);
      if (activates) sum = gelu(sum, activation);
      if (derivative) sum *= gelu_derivative(value_of(more, i * kN + j), activation);
      if (ENDING == Ending::residual) sum += value_of(more, i * kN + j);
      made.wanted.push_back(sum);
    }
  }
  return made;
}

template <bool TOGETHER, Ending ENDING, int COLUMNS>
void expect_right() {
  unsigned seed = 0;
  for (U32 activation : {kGelu, kGeluTanh}) {
    for (U32 blocks : {1u, 2u}) {
      const Product made = run<TOGETHER, ENDING, COLUMNS>(activation, blocks, ++seed);
      EXPECT_LT(distance(made.y, made.wanted), 3e-3) << activation << " in blocks: " << blocks;
      if (!made.wanted_aux.empty()) {
        EXPECT_LT(distance(made.aux, made.wanted_aux), 3e-3) << activation << " in blocks: " << blocks;
      }
    }
  }
}
template <Ending ENDING>
void expect_right_in_every_tile() {
  expect_right<false, ENDING, 128>();
  expect_right<true, ENDING, 128>();
  expect_right<false, ENDING, 192>();
}

class GemmForHopper : public HopperAttention {};

/// Gemms have a form of their own of what tables/activations.def says.
TEST_F(GemmForHopper, HasTheGeluOfTheTable) {
  using namespace activations;
  const float infinite = INFINITY;
  std::vector<float> all = {0.0f, -0.0f, 1e-40f, -1e-40f, 1e18f, -1e18f, 1e30f, -1e30f, infinite, -infinite, NAN};
  for (int i = -3200; i <= 3200; ++i) all.push_back(static_cast<float>(i) / 128);
  // Exponents of up to 90 are off by an ulp or two; the terms of the derivative cancel near -0.75.
  const auto expect_same = [](float x, float got, float wanted, float floor) {
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(got)) << x;
    } else if (got != wanted) {
      EXPECT_NEAR(got, wanted, 4e-7f * (1 + x * x) * std::abs(wanted) + floor) << x;
    }
  };
  for (float x : all) {
    expect_same(x, fast_gelu_tanh(x), gelu_tanh(x), 1e-37f);
    expect_same(x, fast_gelu_tanh_derivative(x), gelu_tanh_backward(1.0f, x), 4e-7f);
  }
}

TEST_F(GemmForHopper, AppliesAnActivation) { expect_right_in_every_tile<Ending::activation>(); }

TEST_F(GemmForHopper, KeepsWhatAnActivationIsAppliedTo) { expect_right_in_every_tile<Ending::kept_sums>(); }

TEST_F(GemmForHopper, MultipliesByTheDerivativeOfAnActivation) { expect_right_in_every_tile<Ending::derivative>(); }

TEST_F(GemmForHopper, AddsABias) { expect_right_in_every_tile<Ending::bias>(); }

TEST_F(GemmForHopper, AddsAResidual) { expect_right_in_every_tile<Ending::residual>(); }

/// A state is of the rounded logits, of which those in padding are none.
TEST_F(GemmForHopper, KeepsTheStatesOfASoftmax) {
  const Product made = run<false, Ending::logits, 192>(0, 2, 1);
  EXPECT_LT(distance(made.y, made.wanted), 3e-3);
  for (int i = 0; i < kM; ++i) {
    for (int tile = 0; tile < 2; ++tile) {
      double largest = -INFINITY, sum = 0;
      for (int j = tile * 192; j < std::min(kLogits, tile * 192 + 192); ++j)
        largest = std::max(largest, value_of(made.y, i * kN + j));
      for (int j = tile * 192; j < std::min(kLogits, tile * 192 + 192); ++j)
        sum += std::exp(value_of(made.y, i * kN + j) - largest);
      const float* state = made.states.data() + (i * 2 + tile) * 3;
      ASSERT_EQ(state[0], largest) << "row " << i << ", tile " << tile;
      ASSERT_NEAR(state[1], sum, 1e-5 * sum) << "row " << i << ", tile " << tile;
    }
  }
}

TEST_F(GemmForHopper, LetsNanReachTheSumOfItsRowAlone) {
  constexpr int kNanRow = 70;
  const Product made = run<false, Ending::logits, 192>(0, 2, 1, kNanRow),
                usual = run<false, Ending::logits, 192>(0, 2, 1);
  for (int i = 0; i < kM; ++i) {
    for (int at = i * 6; at < i * 6 + 6; at += 3) {
      const float* state = made.states.data() + at;
      if (i == kNanRow) {
        EXPECT_EQ(state[0], -INFINITY);
        EXPECT_TRUE(std::isnan(state[1]));
      } else {
        ASSERT_TRUE(std::equal(state, state + 2, usual.states.data() + at)) << "row " << i;
      }
    }
  }
}

}  // namespace
}  // namespace hopper
