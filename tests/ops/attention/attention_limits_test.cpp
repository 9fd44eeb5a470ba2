#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops/attention/internal/cubin.h>
#include <etna/tensor/ops/attention/internal/matrix.h>

#include "nn/on_device.h"
#include "ops/numerics.h"

// Windows, soft caps and packed documents of attention.
namespace etna {
namespace {

using namespace numerics;
using attention::KernelVariant;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct LimitsCase {
  Shape q, kv;
  bool causal = true;
  std::int64_t window = 0;
  double softcap = 0;
  std::vector<std::vector<std::int64_t>> lengths = {};  ///< of documents, for each sequence
  double magnitude = 2;                                 ///< of q

  std::string name() const {
    return fmt::format("q {}, kv {}{}, window {}, softcap {}, {} documents", str(q), str(kv), causal ? ", causal" : "",
                       window, softcap, lengths.empty() ? 0 : lengths[0].size());
  }
  std::int64_t queries() const { return q[q.rank() - 2]; }
  std::int64_t keys() const { return kv[kv.rank() - 2]; }
  Tensor documents(Device device) const {
    if (lengths.empty()) return {};
    std::vector<std::int64_t> all;
    for (const auto& row : lengths) all.insert(all.end(), row.begin(), row.end());
    const auto rows = static_cast<std::int64_t>(lengths.size());
    return document_bounds(from_vector(all, {rows, static_cast<std::int64_t>(all.size()) / rows}).to(device),
                           queries());
  }
  AttentionSettings settings(Device device) const {
    return {.causal = causal, .softcap = softcap, .window = window, .documents = documents(device)};
  }
  /// The number of the document of a position.
  std::size_t document(std::size_t sequence, std::int64_t position) const {
    std::int64_t end = 0;
    std::size_t i = 0;
    for (; !lengths.empty() && i < lengths[sequence].size(); ++i) {
      end += lengths[sequence][i];
      if (position < end) break;
    }
    return i;
  }
  /// What is seen, [B, 1, T, S], by loops.
  Tensor seen() const {
    Tensor all = zeros({q[0], 1, queries(), keys()}, {boolean});
    bool* at = all.mutable_data<bool>();
    for (std::int64_t b = 0; b < q[0]; ++b) {
      for (std::int64_t i = 0; i < queries(); ++i) {
        for (std::int64_t j = 0; j < keys(); ++j, ++at) {
          const auto sequence = static_cast<std::size_t>(b);
          *at =
              (!causal || j <= i) && (window == 0 || j > i - window) && document(sequence, i) == document(sequence, j);
        }
      }
    }
    return all;
  }
};

std::vector<LimitsCase> limits_cases(std::int64_t size) {
  const Shape small{2, 2, 9, size};
  return {
      {{2, 4, 131, size}, {2, 2, 131, size}, true, 40, 3, {{64, 1, 60}, {10, 100, 21}}},
      {small, small, true, 1},
      {small, small, true, 3},
      {small, small, true, 9},
      {small, small, true, 1000},
      {{1, 2, 300, size}, {1, 1, 300, size}, false, 0, 0, {{70, 1, 130, 99}}},
      {{1, 2, 300, size}, {1, 1, 300, size}, true, 0, 0, {{70, 1, 130, 99}}},
      {small, {2, 2, 4, size}, true, 2},
      {{2, 2, 4, size}, small, true, 2},
      {small, small, false, 0, 2},
      {{1, 2, 300, size}, {1, 2, 200, size}, true, 50},
      {small, small, true, 4, 2},
      {small, small, true, 0, 5, {}, 300},
      {small, small, true, 0, 0, {{3, 1, 5}, {9, 0, 0}}},
      {small, small, false, 0, 0, {{3, 1, 5}, {2, 2, 2}}},
      {small, small, true, 2, 3, {{1, 1, 1}, {0, 4, 5}}},
      {{1, 1, 1, size}, {1, 1, 1, size}, true, 1, 2, {{1}}},
      {{1, 2, 700, size}, {1, 2, 700, size}, true, 70, 20, {{5, 515, 60, 120}}},
  };
}

/// Inputs of a dtype, which the results are computed from in another one.
TensorList limits_inputs(const LimitsCase& c, DType t, DType as, Device device) {
  TensorList in;
  for (std::uint64_t i = 1; i <= 3; ++i)
    in.push_back(
        (values(i == 1 ? c.q : c.kv, i) * (i == 1 ? c.magnitude : 2.0)).to(t).to(as).to(device).requires_grad_());
  return in;
}

/// The result and the gradients of q, k, v.
TensorList limits_results(const LimitsCase& c, DType t, DType as, Device device) {
  const TensorList in = limits_inputs(c, t, as, device);
  const Tensor y = dot_product_attention(in[0], in[1], in[2], c.settings(device));
  y.backward(values(c.q, 9).to(t).to(as).to(device));
  return {y, in[0].grad(), in[1].grad(), in[2].grad()};
}

/// The same of base ops in f64, with all weights.
TensorList limits_wanted(const LimitsCase& c, DType t) {
  const TensorList in = limits_inputs(c, t, f64, kCPU);
  const auto repeated = [&](const Tensor& x) {
    const std::int64_t heads = c.q[1], groups = c.kv[1];
    return x.unsqueeze(2)
        .expand({c.q[0], groups, heads / groups, c.keys(), c.q[3]})
        .reshape({c.q[0], heads, c.keys(), c.q[3]});
  };
  Tensor scores = matmul(in[0], repeated(in[1]).t()) / std::sqrt(static_cast<double>(c.q[3]));
  if (c.softcap > 0) scores = tanh(scores / c.softcap) * c.softcap;
  const Tensor seen = c.seen(), weights = where(seen, softmax(where(seen, scores, -1e30), -1), 0.0);
  const Tensor y = matmul(weights, repeated(in[2]));
  y.backward(values(c.q, 9).to(t).to(f64));
  return {y, in[0].grad(), in[1].grad(), in[2].grad()};
}

void expect_limits_agree(const LimitsCase& c, DType t, Device device, double bound) {
  static const char* const names[] = {"y", "dq", "dk", "dv"};
  const TensorList found = limits_results(c, t, t, device), wanted = limits_wanted(c, t);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::vector<double> a = doubles(found[i]), b = doubles(wanted[i]);
    double off = 0, size = 0, largest = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      off += (a[j] - b[j]) * (a[j] - b[j]), size += b[j] * b[j];
      largest = std::max(largest, std::abs(b[j]));
    }
    // Weights of one key do not change, and a capped score of 300 hardly: gradients are what rounding leaves.
    const double floor = 0.02 * std::sqrt(static_cast<double>(b.size()));
    EXPECT_LT(std::sqrt(off) / std::max(std::sqrt(size), floor), bound)
        << name(t) << " " << c.name() << " " << names[i];
  }
}

double limits_bound(DType t) { return t == f64 ? 1e-12 : t == f32 ? 1e-5 : t == f16 ? 1e-3 : 7e-3; }

class AttentionLimits : public OnDevice {};
ETNA_ON_EVERY_DEVICE(AttentionLimits);

TEST_P(AttentionLimits, AgreeWithAllWeights) {
  for (const LimitsCase& c : tried(limits_cases(10), 5)) {  // a GPU builds its pipelines for each window and soft cap
    if (device().is_cpu()) expect_limits_agree(c, f64, device(), limits_bound(f64));
    expect_limits_agree(c, f32, device(), limits_bound(f32));
  }
  expect_limits_agree(limits_cases(67)[0], f32, device(), limits_bound(f32));
  for (DType t : tried(std::vector<DType>{bf16, f16}))
    expect_limits_agree(limits_cases(16)[0], t, device(), limits_bound(t));
}

TEST_P(AttentionLimits, OfOneProjectionAreThoseOfItsParts) {
  const LimitsCase c{{2, 4, 131, 8}, {2, 2, 131, 8}, true, 40, 3, {{64, 1, 60}, {10, 100, 21}}};
  const Tensor qkv = values({2, 131, 8 * 8}, 1, f32).to(device()).requires_grad_();
  const Tensor copy = qkv.detach().clone().requires_grad_(), dy = values({2, 131, 32}, 2, f32).to(device());
  const Tensor y = self_attention(qkv, 4, 2, c.settings(device()));
  const Tensor heads = copy.reshape({2, 131, 8, 8}).transpose(1, 2);
  // Bounds that lie anywhere.
  AttentionSettings settings = c.settings(device());
  const Tensor bounds = settings.documents.reshape({2 * 131 * 2});
  settings.documents = cat({bounds.slice(0, 0, 1), bounds}, 0).slice(0, 1, 2 * 131 * 2 + 1).reshape({2, 131, 2});
  const Tensor z = dot_product_attention(heads.slice(1, 0, 4), heads.slice(1, 4, 6), heads.slice(1, 6, 8), settings)
                       .transpose(1, 2)
                       .reshape({2, 131, 32});
  y.backward(dy), z.backward(dy);
  expect_near(doubles(y), doubles(z), 1e-6, "y");
  expect_near(doubles(qkv.grad()), doubles(copy.grad()), 1e-5, "gradient");
}

TEST_P(AttentionLimits, KeepNaNInItsDocument) {
  const LimitsCase c{{1, 1, 100, 8}, {1, 1, 100, 8}, true, 0, 0, {{30, 40, 30}}};
  for (const std::size_t which : {0, 1}) {
    TensorList in = limits_inputs(c, f32, f32, kCPU);
    in[which] = in[which].detach().clone();
    in[which].mutable_data<float>()[50 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
    for (Tensor& x : in) x = x.to(device());
    const std::vector<double> y = doubles(dot_product_attention(in[0], in[1], in[2], c.settings(device())));
    for (std::size_t row = 0; row < 100; ++row)
      EXPECT_EQ(std::isnan(y[row * 8]), which == 0 ? row == 50 : row >= 50 && row < 70) << which << " " << row;
  }
}

TEST_P(AttentionLimits, ReadNothingOutsideForBoundsThatAreNone) {
  for (const std::vector<std::int32_t>& bad : {std::vector<std::int32_t>{-5, 1000, 2000000000, -2000000000},
                                               std::vector<std::int32_t>{2000000000, 2, -1, 70}}) {
    std::vector<std::int32_t> bounds;
    for (int i = 0; i < 70; ++i) bounds.insert(bounds.end(), bad.begin() + i % 2 * 2, bad.begin() + i % 2 * 2 + 2);
    const LimitsCase c{{1, 2, 70, 8}, {1, 2, 70, 8}};
    for (const bool causal : {false, true}) {
      const TensorList in = limits_inputs(c, f32, f32, device());
      const Tensor documents = from_vector(bounds, {1, 70, 2}).to(device());
      const Tensor y = dot_product_attention(in[0], in[1], in[2], {.causal = causal, .documents = documents});
      y.sum().backward();
      EXPECT_EQ(doubles(in[0].grad()).size(), 2 * 70 * 8U);
    }
  }
}

TEST_P(AttentionLimits, OfACapturedStepAreReadAtEachReplay) {
  const LimitsCase c{{1, 2, 80, 8}, {1, 2, 80, 8}};
  const TensorList in = limits_inputs(c, f32, f32, device());
  Tensor lengths = from_vector<std::int64_t>({80, 0, 0}, {1, 3}).to(device());
  const auto run = [&] {
    const Tensor y = dot_product_attention(in[0], in[1], in[2],
                                           {.causal = true, .window = 30, .documents = document_bounds(lengths, 80)});
    return cat({y.detach(), autograd::grad(TensorList{square(y).sum()}, TensorList{in[1]})[0]}, 0).clone();
  };
  auto step = capture(run, {.device = device()});
  for (const std::vector<std::int64_t>& now : {std::vector<std::int64_t>{80, 0, 0}, {10, 65, 5}, {1, 1, 7}}) {
    lengths.copy_(from_vector(now, {1, 3}));
    expect_near(doubles(step()), doubles(run()), 1e-6, "replay");
  }
}

TEST(AttentionLimitsOnCpu, HaveGradientsThatAgreeWithDifferences) {
  const Tensor documents = document_bounds(from_vector<std::int64_t>({2, 1, 2}, {1, 3}), 5);
  const AttentionSettings all{.causal = true, .softcap = 1.5, .window = 2, .documents = documents};
  const auto f = [&](const TensorList& in) { return TensorList{dot_product_attention(in[0], in[1], in[2], all)}; };
  TensorList in;
  for (std::uint64_t i = 1; i <= 3; ++i) in.push_back(values({1, 2, 5, 2}, i).requires_grad_());
  EXPECT_EQ(autograd::gradcheck(f, in, {.second_order = true}), "");
  // Together with a mask, in the mask's gradient, too.
  const auto masked = [&](const TensorList& x) {
    return TensorList{dot_product_attention(x[0], x[1], x[2], {.mask = x[3], .causal = true, .softcap = 1.5})};
  };
  in.push_back(values({5, 5}, 4).requires_grad_());
  EXPECT_EQ(autograd::gradcheck(masked, in, {.second_order = true}), "");
}

TEST(AttentionLimitsOnCpu, TogetherWithDropoutAndMasksAreTheSame) {
  const LimitsCase c{{2, 2, 9, 4}, {2, 2, 9, 4}, true, 4, 2, {{3, 1, 5}, {2, 2, 2}}};
  const TensorList in = limits_inputs(c, f64, f64, kCPU);
  AttentionSettings settings = c.settings(kCPU);
  const std::vector<double> wanted = doubles(dot_product_attention(in[0], in[1], in[2], settings));
  expect_near(doubles(attention_with_weights(in[0], in[1], in[2], settings).output), wanted, 1e-12, "all weights");
  settings.mask = ones({9, 9}, {boolean});
  expect_near(doubles(dot_product_attention(in[0], in[1], in[2], settings)), wanted, 1e-12, "a mask");
  settings.mask = {};
  settings.causal = false, settings.causal_from_end = true;
  expect_near(doubles(dot_product_attention(in[0], in[1], in[2], settings)), wanted, 1e-12, "from the end");
  settings.documents = {};
  const Tensor last = dot_product_attention(in[0].slice(2, 7, 9), in[1], in[2], settings);
  settings.causal_from_end = false, settings.causal = true;
  const Tensor all = dot_product_attention(in[0], in[1], in[2], settings);
  expect_near(doubles(last), doubles(all.slice(2, 7, 9)), 1e-12, "the last queries");
}

TEST(AttentionLimitsOnCpu, DocumentBoundsFollowLengths) {
  EXPECT_EQ(document_bounds(from_vector<std::int32_t>({2, 0, 1}), 5).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{0, 2, 0, 2, 2, 3, 3, 5, 3, 5}));
  EXPECT_EQ(document_bounds(from_vector<std::int64_t>({1, 9}), 3).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{0, 1, 1, 3, 1, 3}));
}

TEST(AttentionLimitsOnCpu, ChunksBeginAnewInEachDocument) {
  manual_seed(3);
  const Tensor q = randn({1, 2, 7, 4}), k = randn({1, 2, 7, 4}), v = randn({1, 2, 7, 4});
  const auto bounds = [](const std::vector<std::int64_t>& lengths) {
    return document_bounds(from_vector(lengths, {1, std::ssize(lengths)}), 7);
  };
  const Tensor chunks = dot_product_attention(q, k, v, {.causal = true, .chunk = 2, .documents = bounds({3, 4})});
  const Tensor apart = dot_product_attention(q, k, v, {.causal = true, .documents = bounds({2, 1, 2, 2})});
  EXPECT_EQ(chunks.to_vector<float>(), apart.to_vector<float>());
}

TEST(AttentionLimitsOnCpu, SayWhatDoesNotFit) {
  const Tensor q = zeros({2, 4, 5, 8}), documents = zeros({2, 5, 2}, {i32}), qkv = zeros({2, 5, 24});
  const auto says = [&](const AttentionSettings& s, const char* words) {
    EXPECT_THAT([&] { dot_product_attention(q, q, q, s); }, ThrowsMessage<Error>(HasSubstr(words)));
    EXPECT_THAT([&] { attention_with_weights(q, q, q, s); }, ThrowsMessage<Error>(HasSubstr(words)));
    EXPECT_THAT([&] { self_attention(qkv, 1, 1, s); }, ThrowsMessage<Error>(HasSubstr(words)));
  };
  says({.causal = true, .window = -1}, "the window is -1");
  says({.window = 3}, "without causal");
  says({.softcap = -2}, "softcap -2");
  says({.softcap = std::numeric_limits<double>::infinity()}, "softcap inf");
  says({.softcap = std::numeric_limits<double>::quiet_NaN()}, "softcap nan");
  says({.documents = documents.to(i64)}, "documents hold i64; wanted i32");
  says({.documents = zeros({5, 2}, {i32})}, "got documents [5, 2]; wanted [2, 5, 2]");
  const Tensor longer = zeros({2, 4, 6, 8});
  EXPECT_THAT([&] { dot_product_attention(q, longer, longer, {.documents = documents}); },
              ThrowsMessage<ShapeError>(HasSubstr("5 queries and 6 keys")));
  EXPECT_THAT(
      [&] {
        self_attention(qkv, 1, 1, {.mask = ones({5, 5}, {boolean})});
      },
      ThrowsMessage<Error>(HasSubstr("got a mask; use dot_product_attention()")));
  EXPECT_THAT([&] { self_attention(qkv, 1, 1, {.dropout = 0.1}); }, ThrowsMessage<Error>(HasSubstr("dropout")));
  EXPECT_THAT([&] { document_bounds(zeros({3}), 5); }, ThrowsMessage<DtypeError>(HasSubstr("f32")));
  EXPECT_THAT([&] { document_bounds(zeros({0}, {i32}), 5); }, ThrowsMessage<ShapeError>(HasSubstr("[..., N]")));
}

class AttentionLimitsOnMatrixUnits : public testing::TestWithParam<std::tuple<KernelVariant, DType>> {
 protected:
  void SetUp() override {
    if (!with_vulkan()) GTEST_SKIP() << "ETNA_TEST_VULKAN is not 1";
    const DType t = std::get<1>(GetParam());
    attention::Inputs in;
    in.q = in.k = in.v = zeros({1, 1, 16, 64}, {t, kVulkan});
    in.batch = in.heads = in.groups = 1, in.queries = in.keys = 16, in.size = 64;
    if (std::get<0>(GetParam()) == KernelVariant::cubin
            ? !attention::has_cubin(kVulkan, t, 64)
            : !attention::matrix_kernel(attention::Pass::forward, in, 1, 99, {&in.q}))
      GTEST_SKIP() << "the device or the build has no such kernels";
  }
  const Override<std::optional<KernelVariant>> variant_{&Overrides::attention_variant, std::get<0>(GetParam())};
};

TEST_P(AttentionLimitsOnMatrixUnits, AgreeWithAllWeights) {
  const auto [variant, t] = GetParam();
  // Shaders are compiled for each window and soft cap.
  const std::size_t step = variant == KernelVariant::cubin ? 1 : 5;
  for (const std::int64_t size :
       step == 1 ? std::vector<std::int64_t>{64, 72, 128, 256} : std::vector<std::int64_t>{72}) {
    const std::vector<LimitsCase> cases = limits_cases(size);
    for (std::size_t i = 0; i < cases.size(); i += step)
      expect_limits_agree(cases[i], t, kVulkan, t == f16 ? 1e-3 : 7e-3);
  }
}

TEST_P(AttentionLimitsOnMatrixUnits, GiveTheSameBitsInEachRun) {
  const DType t = std::get<1>(GetParam());
  const LimitsCase c{{2, 4, 1000, 64}, {2, 2, 1000, 64}, true, 300, 20, {{300, 1, 500}, {10, 900, 90}}};
  const TensorList first = limits_results(c, t, t, kVulkan);
  for (int run = 0; run < 3; ++run) {
    const TensorList next = limits_results(c, t, t, kVulkan);
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(doubles(next[i]), doubles(first[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, AttentionLimitsOnMatrixUnits,
                         testing::Combine(testing::Values(KernelVariant::coopmat, KernelVariant::coopmat2,
                                                          KernelVariant::cubin),
                                          testing::Values(f16, bf16)),
                         [](const auto& info) {
                           const KernelVariant variant = std::get<0>(info.param);
                           return fmt::format("{}_{}",
                                              variant == KernelVariant::coopmat    ? "coopmat"
                                              : variant == KernelVariant::coopmat2 ? "coopmat2"
                                                                                   : "cubin",
                                              name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace etna
