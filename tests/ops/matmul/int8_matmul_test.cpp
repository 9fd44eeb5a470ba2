#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/device/kernel.h>

#include "ops/numerics.h"

namespace etna {
namespace {

using namespace numerics;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<Device> devices() { return with_vulkan() ? std::vector<Device>{kCPU, kVulkan} : std::vector<Device>{kCPU}; }

Tensor int8_matmul_bytes(Shape shape, std::uint64_t seed) { return (values(shape, seed) * 128.0).to(i8); }

TEST(Int8Matmul, IsExactInEveryLayout) {
  struct Sizes {
    std::int64_t m, k, n;
  };
  for (Device device : devices()) {
    for (auto [m, k, n] : {Sizes{1, 1, 1}, Sizes{3, 5, 7}, Sizes{64, 64, 64}, Sizes{65, 129, 67}, Sizes{8, 260, 12},
                           Sizes{1, 97, 130}, Sizes{131, 4, 1}, Sizes{130, 272, 140}, Sizes{721, 33, 1030}}) {
      for (bool a_turned : {false, true}) {
        for (bool b_turned : {false, true}) {
          Tensor a = a_turned ? int8_matmul_bytes({k, m}, 1).t() : int8_matmul_bytes({m, k}, 1);
          Tensor b = b_turned ? int8_matmul_bytes({n, k}, 2).t() : int8_matmul_bytes({k, n}, 2);
          Tensor y = int8_matmul(a.to(device), b.to(device));
          EXPECT_EQ(y.dtype(), i32);
          EXPECT_EQ(doubles(y), doubles(matmul(a.to(f64), b.to(f64))))
              << m << "x" << k << "x" << n << " turned " << a_turned << b_turned << " on " << device.str();
        }
      }
    }
  }
}

TEST(Int8Matmul, HoldsTheLargestSums) {
  for (Device device : devices()) {
    Tensor a = full({1, 131071}, -128, {i8}).to(device), b = full({131071, 2}, -128, {i8}).to(device);
    EXPECT_EQ(doubles(int8_matmul(a, b)), std::vector<double>(2, 131071.0 * 16384));
    EXPECT_EQ(doubles(int8_matmul(a, full({131071, 2}, 127, {i8}).to(device))),
              std::vector<double>(2, -131071.0 * 128 * 127));
  }
}

TEST(Int8Matmul, TakesBatchesThatDoNotMerge) {
  Tensor a = int8_matmul_bytes({2, 2, 2, 3, 4}, 1), b = int8_matmul_bytes({2, 2, 2, 4, 3}, 2);
  Tensor turned = a.permute({2, 0, 1, 3, 4});
  std::vector<double> want = doubles(matmul(turned.to(f64), b.to(f64)));
  for (Device device : devices()) {
    EXPECT_EQ(doubles(int8_matmul(a.to(device).permute({2, 0, 1, 3, 4}), b.to(device))), want) << device.str();
  }
}

TEST(Int8Matmul, ReadsNothingBesideItsOperands) {
  for (Device device : devices()) {
    for (std::int64_t pad : {1, 4}) {
      Tensor a = full({6, 10 + pad}, 100, {i8}), b = full({10, 7 + pad}, 100, {i8});
      a.slice(1, 0, 10).copy_(int8_matmul_bytes({6, 10}, 1)), b.slice(1, 0, 7).copy_(int8_matmul_bytes({10, 7}, 2));
      Tensor y = int8_matmul(a.to(device).slice(1, 0, 10), b.to(device).slice(1, 0, 7));
      EXPECT_EQ(doubles(y),
                doubles(matmul(int8_matmul_bytes({6, 10}, 1).to(f64), int8_matmul_bytes({10, 7}, 2).to(f64))))
          << device.str();
    }
  }
}

TEST(Int8Matmul, ScalesInF32AndRoundsOnce) {
  Tensor a = int8_matmul_bytes({70, 40}, 1), b = int8_matmul_bytes({40, 66}, 2);
  Tensor rows = (values({70}, 3) + 2.0).to(f32), columns = (values({66}, 4) + 2.0).to(f32),
         one = full({}, 0.125, {f32});
  std::vector<float> sums = int8_matmul(a, b).to_vector<float>(), r = rows.to_vector<float>(),
                     c = columns.to_vector<float>();
  for (Device device : devices()) {
    for (DType out : {f32, f16, bf16}) {
      Tensor y = int8_matmul(a.to(device), b.to(device), rows.to(device), columns.to(device), out);
      std::vector<float> want = sums;
      for (std::size_t i = 0; i < want.size(); ++i) want[i] = want[i] * r[i / 66] * c[i % 66];
      EXPECT_EQ(y.dtype(), out);
      EXPECT_EQ(doubles(y), doubles(from_vector(want, {70, 66}).to(out))) << device.str();
    }
    Tensor same = int8_matmul(a.to(device), b.to(device), one.to(device), {}, f32);
    EXPECT_EQ(doubles(same), doubles(int8_matmul(a, b).to(f32) * 0.125)) << device.str();
  }
}

TEST(Int8Matmul, SaysWhatIsWrong) {
  Tensor a = zeros({2, 3}, {i8}), b = zeros({3, 4}, {i8});
  EXPECT_THAT([&] { int8_matmul(a.to(f32), b); }, ThrowsMessage<DtypeError>(HasSubstr("both must be i8")));
  EXPECT_THAT([&] { int8_matmul(a, b.t()); }, ThrowsMessage<ShapeError>(HasSubstr("a [2, 3] · b [4, 3]")));
  EXPECT_THAT(
      [&] {
        int8_matmul(zeros({1, 131072}, {i8}), zeros({131072, 1}, {i8}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("2^31")));
  EXPECT_THROW(int8_matmul(a, b, ones({3}), {}, f32), ShapeError);
  EXPECT_THROW(int8_matmul(a, b, {}, ones({4}).to(f16), f32), DtypeError);
  EXPECT_THROW(int8_matmul(a, b, {}, {}, i32), DtypeError);
  EXPECT_THROW(int8_matmul(zeros({3}, {i8}), b), ShapeError);
}

TEST(Int8Matmul, SaysThatItHasNoGradient) {
  Tensor scale = ones({}).requires_grad_();
  Tensor y = int8_matmul(zeros({2, 3}, {i8}), zeros({3, 4}, {i8}), scale, {}, f32);
  EXPECT_THAT([&] { sum(y).backward(); }, ThrowsMessage<Error>(HasSubstr("not differentiable")));
}

}  // namespace
}  // namespace etna
