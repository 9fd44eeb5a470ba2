#include <etna/tensor/eigen.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Eigen, AMatrixReadsTheTensorsMemory) {
  Tensor x = arange(12.0).reshape({3, 4});
  const auto matrix = eigen_matrix<float>(x);
  EXPECT_EQ(matrix.data(), x.data<float>());
  EXPECT_EQ(matrix.rows(), 3);
  EXPECT_EQ(matrix(2, 1), 9);
  const Tensor part = x.slice(0, 1, 3).slice(1, 1, 3);
  EXPECT_EQ(eigen_matrix<float>(part)(1, 0), 9);
  EXPECT_EQ(eigen_matrix<float>(part).sum(), 5 + 6 + 9 + 10);
}

TEST(Eigen, StridedViewsNeedNoCopy) {
  const Tensor x = arange(12.0).reshape({3, 4});
  const auto transposed = eigen_strided_matrix<float>(x.t());
  EXPECT_EQ(transposed.rows(), 4);
  EXPECT_EQ(transposed(1, 2), 9);
  EXPECT_EQ(eigen_strided_matrix<float>(x.slice(1, 0, 4, 2)).sum(), 0 + 2 + 4 + 6 + 8 + 10);
  EXPECT_EQ(eigen_strided_vector<float>(x.select(1, 3)).sum(), 3 + 7 + 11);
  EXPECT_EQ(eigen_vector<float>(x.select(0, 1)).sum(), 4 + 5 + 6 + 7);
  EXPECT_EQ(eigen_strided_matrix<float>(arange(3.0).reshape({3, 1}).expand({3, 5})).sum(), 15);
  EXPECT_THAT([&] { eigen_matrix<float>(x.t()); }, ThrowsMessage<ShapeError>(HasSubstr("4 elements apart")));
  EXPECT_THROW(eigen_vector<float>(x.select(1, 3)), ShapeError);
}

TEST(Eigen, AMutableMapIsAChangeOfTheTensor) {
  Tensor x = zeros({2, 3}), v = zeros({3}), t = zeros({2, 3, 4});
  mutable_eigen_matrix<float>(x).setConstant(2);
  mutable_eigen_vector<float>(v) << 1, 2, 3;
  Tensor column = x.select(1, 1), transposed = x.t();
  mutable_eigen_strided_vector<float>(column).array() += 1;
  mutable_eigen_strided_matrix<float>(transposed)(2, 0) = 9;
  mutable_eigen_tensor<float, 3>(t)(1, 2, 3) = 5;
  EXPECT_EQ(x.to_vector<int>(), std::vector<int>({2, 3, 9, 2, 3, 2}));
  EXPECT_EQ(v.to_vector<int>(), std::vector<int>({1, 2, 3}));
  EXPECT_EQ(t.to_vector<int>().back(), 5);
  Tensor w = ones({2, 3});
  w.requires_grad_();
  const Tensor y = (w * x).sum();
  mutable_eigen_matrix<float>(x)(0, 0) = 1;
  EXPECT_THROW(y.backward(), GradError);
  Tensor repeated = ones({3, 1}).expand({3, 5});
  EXPECT_THAT([&] { mutable_eigen_strided_matrix<float>(repeated); }, ThrowsMessage<ShapeError>(HasSubstr("expand()")));
}

TEST(Eigen, TensorsOfAnyRankAreMapped) {
  const Tensor x = arange(24.0).reshape({2, 3, 4});
  const auto map = eigen_tensor<float, 3>(x);
  EXPECT_EQ(map.dimension(1), 3);
  EXPECT_EQ(map(1, 2, 3), 23);
  const Eigen::Tensor<float, 0, Eigen::RowMajor> sum = map.sum();
  EXPECT_EQ(sum(), 276);
  EXPECT_THAT(
      [&] {
        (eigen_tensor<float, 3>(x.permute({2, 0, 1})));
      },
      ThrowsMessage<ShapeError>(HasSubstr("contiguous()")));
  EXPECT_THAT([&] { (eigen_tensor<float, 2>(x)); }, ThrowsMessage<ShapeError>(HasSubstr("wants 2 dimensions")));
}

TEST(Eigen, MatricesArraysAndExpressionsBecomeTensors) {
  Eigen::MatrixXf a(2, 3);
  a << 1, 2, 3, 4, 5, 6;
  EXPECT_EQ(from_eigen(a).shape(), Shape({2, 3}));
  EXPECT_EQ(from_eigen(a).to_vector<int>(), std::vector<int>({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(from_eigen(a.transpose() * 2).to_vector<int>(), std::vector<int>({2, 8, 4, 10, 6, 12}));
  EXPECT_EQ(from_eigen(a * a.transpose()).to_vector<int>(), std::vector<int>({14, 32, 32, 77}));
  EXPECT_EQ(from_eigen(a.array().square().col(1)).to_vector<int>(), std::vector<int>({4, 25}));
  EXPECT_EQ(from_eigen(a.row(1)).shape(), Shape({3}));
  EXPECT_EQ(from_eigen(a.array() > 3).dtype(), boolean);
  EXPECT_EQ(from_eigen(Eigen::MatrixXi::Identity(2, 2)).dtype(), i32);
  EXPECT_EQ(from_eigen(Eigen::MatrixXd(0, 4)).shape(), Shape({0, 4}));
  EXPECT_EQ(from_eigen(a.cast<Eigen::half>()).dtype(), f16);
  EXPECT_EQ(from_eigen(a.cast<Eigen::bfloat16>()).to_vector<int>(), std::vector<int>({1, 2, 3, 4, 5, 6}));
}

TEST(Eigen, TensorsOfEitherLayoutBecomeTensors) {
  Eigen::Tensor<float, 3> columns(2, 3, 4);
  Eigen::Tensor<float, 3, Eigen::RowMajor> rows(2, 3, 4);
  for (int i = 0; i < 24; ++i)
    columns(i / 12, i / 4 % 3, i % 4) = rows(i / 12, i / 4 % 3, i % 4) = static_cast<float>(i);
  const std::vector<float> want = arange(24.0).to_vector<float>();
  EXPECT_EQ(from_eigen(columns).shape(), Shape({2, 3, 4}));
  EXPECT_EQ(from_eigen(columns).to_vector<float>(), want);
  EXPECT_EQ(from_eigen(rows).to_vector<float>(), want);
  EXPECT_EQ(from_eigen(rows * 2.0f).to_vector<float>(), (arange(24.0) * 2).to_vector<float>());
  EXPECT_EQ(from_eigen(columns.sum()).shape(), Shape({}));
}

TEST(Eigen, HalvesAreMapped) {
  const Tensor x = arange(4.0).to(f16).reshape({2, 2}), y = arange(4.0).to(bf16);
  EXPECT_EQ(static_cast<float>(eigen_matrix<Eigen::half>(x)(1, 1)), 3);
  EXPECT_EQ(static_cast<float>(eigen_vector<Eigen::bfloat16>(y)(2)), 2);
}

TEST(Eigen, WhatDoesNotFitIsRefusedInWords) {
  const Tensor x = ones({2, 2});
  EXPECT_THAT([&] { eigen_matrix<double>(x); }, ThrowsMessage<DtypeError>(HasSubstr("holds f32, asked for was f64")));
  EXPECT_THAT([&] { eigen_vector<float>(x); }, ThrowsMessage<ShapeError>(HasSubstr("wants 1 dimensions")));
  EXPECT_EQ(eigen_matrix<float>(empty({0, 3})).size(), 0);
  for (const AdapterInfo& adapter : adapters()) {
    if (adapter.device != kVulkan || !adapter.rejected.empty()) continue;
    EXPECT_THAT(
        [&] {
          eigen_matrix<float>(ones({2, 2}, kVulkan));
        },
        ThrowsMessage<DeviceError>(HasSubstr("take x.to(kCPU)")));
  }
}

}  // namespace
}  // namespace etna
