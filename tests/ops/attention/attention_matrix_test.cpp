#include <limits>

#include <gtest/gtest.h>

#include <etna/device/kernel.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops/attention/internal/cubin.h>
#include <etna/tensor/ops/attention/internal/matrix.h>

#include "ops/numerics.h"

namespace etna {
namespace {

using namespace numerics;
using attention::KernelVariant;

struct AttentionMatrixCase {
  std::string name;
  Shape q, kv;
  bool causal = false;
  Tensor mask = {};
  std::int64_t value_size = 0;  ///< of heads of values, if it is another one

  Shape of_values(Shape shape) const {
    if (value_size > 0) shape.back() = value_size;
    return shape;
  }
};

std::vector<AttentionMatrixCase> attention_matrix_cases() {
  std::vector<AttentionMatrixCase> all;
  for (std::int64_t size : {32, 64, 72, 128, 256}) {
    all.push_back({"head size " + std::to_string(size), {1, 2, 130, size}, {1, 2, 130, size}, true});
  }
  for (std::int64_t length : {1, 17, 64, 65, 1000}) {
    for (bool causal : {false, true})
      all.push_back({"length " + std::to_string(length), {2, 2, length, 64}, {2, 2, length, 64}, causal});
  }
  all.push_back({"grouped heads", {2, 6, 100, 64}, {2, 2, 100, 64}, true});
  all.push_back({"more queries", {1, 2, 150, 32}, {1, 2, 70, 32}, true});
  all.push_back({"more keys", {1, 2, 70, 32}, {1, 2, 150, 32}, true});
  all.push_back({"more keys, not causal", {1, 1, 3, 64}, {1, 1, 300, 64}});
  all.push_back({"bool mask", {2, 2, 70, 64}, {2, 2, 90, 64}, false, gt(values({2, 1, 70, 90}, 4), 0.4)});
  all.push_back({"floating mask", {2, 2, 70, 64}, {2, 2, 90, 64}, false, values({2, 1, 90}, 4, f32) * 3.0});
  all.push_back({"a mask of each head", {2, 4, 150, 128}, {2, 2, 200, 128}, false, values({4, 150, 200}, 4).to(bf16)});
  all.push_back({"a mask of keys", {2, 2, 200, 72}, {2, 2, 130, 72}, false, gt(values({2, 1, 1, 130}, 4), 0.2)});
  const Tensor near = triu(tril(ones({300, 300}), 20), -40);
  all.push_back({"a band", {1, 4, 300, 64}, {1, 2, 300, 64}, false, near > 0.0});
  all.push_back({"a band, added", {1, 2, 300, 256}, {1, 2, 300, 256}, false, log(near).to(f16)});
  for (const bool causal : {false, true})
    all.push_back({"keys of 192, values of 128", {1, 4, 300, 192}, {1, 2, 300, 192}, causal, {}, 128});
  all.push_back({"keys of 200, values of 160", {1, 4, 150, 200}, {1, 2, 200, 200}, true, {}, 160});
  all.push_back({"keys of 192, values of 128, a band", {1, 4, 300, 192}, {1, 2, 300, 192}, false, near > 0.0, 128});
  all.push_back({"keys of 96, values of 64", {2, 2, 150, 96}, {2, 2, 200, 96}, true, {}, 64});
  all.push_back({"keys of 64, values of 128",
                 {1, 2, 70, 64},
                 {1, 2, 90, 64},
                 false,
                 near.slice(0, 0, 70).slice(1, 0, 90) > 0.0,
                 128});
  all.push_back({"few rows, values of 32", {2, 2, 20, 64}, {2, 2, 20, 64}, true, {}, 32});
  Tensor nothing = ones({130, 130}, {boolean});
  nothing.slice(0, 3, 70).fill_(0);  // a whole tile, and parts of two
  all.push_back({"rows that attend to nothing", {1, 2, 130, 64}, {1, 2, 130, 64}, false, nothing});
  return all;
}

/// The result and the gradients of q, k, v, for inputs rounded to `t` and computed in `as`.
TensorList attention_matrix_results(const AttentionMatrixCase& c, DType t, DType as, Device d) {
  TensorList in;
  for (std::uint64_t i = 1; i <= 3; ++i)
    in.push_back((values(i == 1 ? c.q : i == 2 ? c.kv : c.of_values(c.kv), i, t) * 2.0).to(as).to(d).requires_grad_());
  Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], c.mask.defined() ? c.mask.to(d) : c.mask, c.causal);
  y.backward(values(c.of_values(c.q), 9, t).to(as).to(d));
  return {y, in[0].grad(), in[1].grad(), in[2].grad()};
}

/// |a - b| / |b|, or |a - b| where b is nothing but rounding; infinite if a value is NaN.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double off = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) off += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  double relative = std::sqrt(off / (size > 1e-20 ? size : 1));
  return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
}

/// Softmax weights and their inputs are rounded to the inputs' dtype once each. f32 is not rounded, and reaches 1e-6;
/// of one key, gradients are what rounding leaves.
double bound(DType t) { return t == bf16 ? 5e-3 : t == f16 ? 7e-4 : 8e-6; }

class AttentionOnMatrixUnits : public testing::TestWithParam<std::tuple<KernelVariant, DType>> {
 protected:
  void SetUp() override {
    if (!with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
    if (std::get<0>(GetParam()) == KernelVariant::cubin) {
      if (dtype() == f32 ? !attention::has_f32_cubin(kVulkan, 64) : !attention::has_cubin(kVulkan, dtype(), 64))
        GTEST_SKIP() << "the device or the build has no such kernels";
      return;
    }
    attention::Inputs in;
    in.q = in.k = in.v = zeros({1, 1, 16, 64}, {dtype(), kVulkan});
    in.batch = in.heads = in.groups = 1, in.queries = in.keys = 16, in.size = 64;
    if (!attention::matrix_kernel(attention::Pass::forward, in, 1, 99, {&in.q}))
      GTEST_SKIP() << "the device or the build has no such matrix units";
  }
  DType dtype() const { return std::get<1>(GetParam()); }
  const Override<std::optional<attention::KernelVariant>> variant_{&Overrides::attention_variant,
                                                                   std::get<0>(GetParam())};
};

TEST_P(AttentionOnMatrixUnits, AgreesWithF64) {
  static const char* const names[] = {"y", "dq", "dk", "dv"};
  for (const AttentionMatrixCase& c : attention_matrix_cases()) {
    TensorList wanted = attention_matrix_results(c, dtype(), f64, kCPU),
               found = attention_matrix_results(c, dtype(), dtype(), kVulkan);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_LT(distance(doubles(found[i]), doubles(wanted[i])), bound(dtype())) << c.name << " " << names[i];
  }
}

TEST_P(AttentionOnMatrixUnits, TakesMasksUnderSoftCaps) {
  const AttentionMatrixCase c{"", {2, 4, 130, 64}, {2, 2, 150, 64}};
  for (const Tensor& mask : {gt(values({130, 150}, 4), 0.3), values({4, 130, 150}, 4, f32)}) {
    const auto run = [&](DType as, Device d) {
      TensorList in;
      for (std::uint64_t i = 1; i <= 3; ++i)
        in.push_back((values(i == 1 ? c.q : c.kv, i, dtype()) * 2.0).to(as).to(d).requires_grad_());
      const Tensor y = dot_product_attention(in[0], in[1], in[2], {.mask = mask.to(d), .softcap = 3});
      y.backward(values(c.q, 9, dtype()).to(as).to(d));
      return TensorList{y, in[0].grad(), in[1].grad(), in[2].grad()};
    };
    const TensorList wanted = run(f64, kCPU), found = run(dtype(), kVulkan);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_LT(distance(doubles(found[i]), doubles(wanted[i])), 2 * bound(dtype())) << name(mask.dtype()) << " " << i;
  }
}

// A row of the lowest numbers attends to all keys alike; what it adds to gradients is finite.
TEST_P(AttentionOnMatrixUnits, TakesTheLowestNumbersAsMask) {
  if (std::get<0>(GetParam()) != KernelVariant::cubin) GTEST_SKIP() << "others take them for -inf";
  const Tensor mask = (triu(ones({150, 150}), 1) * -1.7e38).to(f32);
  mask.slice(0, 5, 6).fill_(-1.7e38);
  TensorList in;
  for (std::uint64_t i = 1; i <= 3; ++i) in.push_back(values({1, 1, 150, 64}, i, dtype()).to(kVulkan).requires_grad_());
  const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], mask.to(kVulkan));
  y.sum().backward();
  const std::vector<double> found = doubles(y.slice(2, 5, 6)), wanted = doubles(mean(in[2].detach().to(f32), {2}));
  EXPECT_LT(distance(found, wanted), 5 * bound(dtype()));
  for (const Tensor& x : in) {
    for (const double g : doubles(x.grad())) ASSERT_TRUE(std::isfinite(g));
  }
}

TEST_P(AttentionOnMatrixUnits, TakesHeadsWhereTheyLie) {
  for (std::int64_t kv_heads : {1, 2}) {
    Tensor qkv = values({2, 200, (2 + 2 * kv_heads) * 64}, 1, dtype()), dy = values({2, 200, 128}, 2, dtype());
    auto run = [&](DType as, Device d) {
      Tensor x = qkv.to(as).to(d).requires_grad_();
      Tensor y = self_attention(x, 2, kv_heads, true);
      y.backward(dy.to(as).to(d));
      return TensorList{y, x.grad()};
    };
    TensorList wanted = run(f64, kCPU), found = run(dtype(), kVulkan);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_LT(distance(doubles(found[i]), doubles(wanted[i])), bound(dtype())) << kv_heads;
  }
}

TEST_P(AttentionOnMatrixUnits, TakesScoresFarFromZero) {
  // Later keys have ever larger scores, so that every tile rescales the previous sums; some scores are far smaller.
  Tensor q = ones({1, 1, 200, 64}), k = ones({1, 1, 200, 64}), v = values({1, 1, 200, 64}, 3);
  for (std::int64_t i = 0; i < 200; ++i) k.slice(2, i, i + 1).fill_(static_cast<double>(i) - 150);
  auto run = [&](DType as, Device d) {
    return doubles(scaled_dot_product_attention(q.to(as).to(d), k.to(as).to(d), v.to(dtype()).to(as).to(d)));
  };
  EXPECT_LT(distance(run(dtype(), kVulkan), run(f64, kCPU)), bound(dtype()));
}

TEST_P(AttentionOnMatrixUnits, TwoRunsGiveTheSameBits) {
  AttentionMatrixCase c{"", {2, 2, 300, 64}, {2, 2, 300, 64}, true};
  TensorList first = attention_matrix_results(c, dtype(), dtype(), kVulkan),
             second = attention_matrix_results(c, dtype(), dtype(), kVulkan);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(doubles(first[i]), doubles(second[i]));
}

TEST_P(AttentionOnMatrixUnits, KeepsWhatIsNoNumberVisible) {
  TensorList in;
  for (std::uint64_t i = 1; i <= 3; ++i) in.push_back(values({1, 1, 100, 64}, i, f32));
  in[0].mutable_data<float>()[70 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
  for (Tensor& x : in) x = x.to(dtype()).to(kVulkan).requires_grad_();
  Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {}, true);
  std::vector<double> out = doubles(y);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 64 == 70);
  y.backward(ones({1, 1, 100, 64}, {dtype(), kVulkan}));
  std::vector<double> dq = doubles(in[0].grad()), dk = doubles(in[1].grad()), dv = doubles(in[2].grad());
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_FALSE(std::isfinite(dq[70 * 64 + i]));
    EXPECT_FALSE(std::isfinite(dv[i]));
    EXPECT_TRUE(std::isfinite(dq[71 * 64 + i]));
    EXPECT_TRUE(std::isfinite(dv[71 * 64 + i]));
  }
  EXPECT_FALSE(std::isfinite(dk[5]));
}

std::string name_of(const testing::TestParamInfo<std::tuple<KernelVariant, DType>>& info) {
  static const char* const variants[] = {"plain_", "coopmat_", "coopmat2_", "cubin_"};
  return variants[static_cast<int>(std::get<0>(info.param))] + std::string(name(std::get<1>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(Variants, AttentionOnMatrixUnits,
                         testing::Combine(testing::Values(KernelVariant::coopmat, KernelVariant::coopmat2,
                                                          KernelVariant::cubin),
                                          testing::Values(f16, bf16)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(F32, AttentionOnMatrixUnits, testing::Values(std::tuple(KernelVariant::cubin, f32)), name_of);

}  // namespace
}  // namespace etna
