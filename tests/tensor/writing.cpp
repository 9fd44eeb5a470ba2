#include <cmath>
#include <type_traits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>

#include "nn/on_device.h"

// Writes into tensors: by assignment to views, in place, and through host pointers.
namespace etna {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Writing : public OnDevice {};
ETNA_ON_EVERY_DEVICE(Writing);

std::vector<double> writing_values(const Tensor& x) { return x.to_vector<double>(); }

TEST_P(Writing, AssignmentToAViewWrites) {
  Tensor x = zeros({2, 3}, device()), y = ones({3}, device());
  x[0] = y;
  EXPECT_THAT(writing_values(x), ElementsAre(1, 1, 1, 0, 0, 0));
  x.slice(1, 1, 3) = full({2, 1}, 5, {i32, device()});
  EXPECT_THAT(writing_values(x), ElementsAre(1, 5, 5, 0, 5, 5)) << "broadcasts and converts";
  x[1] = 2.0;
  x[1][0] = 7;
  EXPECT_THAT(writing_values(x), ElementsAre(1, 5, 5, 7, 2, 2));
  x.t()[0] = x.t()[1].clone();
  EXPECT_THAT(writing_values(x), ElementsAre(5, 5, 5, 2, 2, 2));
}

TEST_P(Writing, AssignmentToANameChangesTheHandle) {
  Tensor x = zeros({2}, device()), row = x[0];
  row = ones({5}, device());
  EXPECT_THAT(writing_values(x), ElementsAre(0, 0));
  EXPECT_EQ(row.numel(), 5);
  static_assert(std::is_copy_assignable_v<Tensor> && std::is_nothrow_move_assignable_v<Tensor>);
}

TEST_P(Writing, AssignmentRefusesWhatDoesNotFit) {
  Tensor x = zeros({2, 3}, device());
  EXPECT_THAT([&] { x[0] = ones({4}, device()); }, ThrowsMessage<ShapeError>(HasSubstr("[4]")));
  EXPECT_THAT([&] { x[0] = Tensor(); }, ThrowsMessage<Error>(HasSubstr("copy_: operand 1 is an undefined tensor")));
  Tensor w = ones({3}, device()).requires_grad_();
  EXPECT_THAT([&] { w[0] = 2.0; }, ThrowsMessage<GradError>(HasSubstr("requires grad")));
  NoGrad off;
  w[0] = 2.0;
  x[0] = w;
  EXPECT_THAT(writing_values(x), ElementsAre(2, 1, 1, 0, 0, 0));
}

TEST_P(Writing, CompoundAssignmentIsInPlace) {
  Tensor x = full({2}, 6, device()), same = x;
  x += ones({2}, device());
  x -= 3;
  x *= full({1}, 2, device());
  x /= 4.0;
  EXPECT_THAT(writing_values(same), ElementsAre(2, 2));
  x[0] += 1.0;
  x[1] /= ones({}, device()) * 4.0;
  EXPECT_THAT(writing_values(same), ElementsAre(3, 0.5));
  Tensor i = full({2}, 7, {i64, device()});
  i += 2, i -= ones({2}, {i32, device()}), i *= 3;
  EXPECT_THAT(writing_values(i), ElementsAre(24, 24));
}

TEST_P(Writing, CompoundAssignmentLetsGradientsFlow) {
  Tensor w = ones({3}, device()).requires_grad_(), total = zeros({}, device()), same = total;
  for (int i = 1; i <= 3; ++i) total += (w * static_cast<double>(i)).sum();
  total *= 2;
  total.backward();
  EXPECT_THAT(writing_values(w.grad()), ElementsAre(12, 12, 12));
  EXPECT_EQ(same.item(), 36) << "every handle";
  EXPECT_THROW(w += 1, GradError) << "a leaf";
  EXPECT_THROW(total += w, ShapeError);
}

TEST_P(Writing, InPlaceRefusesWhatWouldBeLost) {
  Tensor i = ones({2}, {i64, device()}), mask = i > 0;
  EXPECT_THAT([&] { i.add_(full({2}, 0.5, device())); },
              ThrowsMessage<DtypeError>(HasSubstr("add_: the result would be f32, which a tensor of i64 cannot hold")));
  EXPECT_THAT([&] { i.mul_(1.5); }, ThrowsMessage<DtypeError>(HasSubstr("mul_")));
  EXPECT_THAT([&] { i.sub_(i, 0.5); }, ThrowsMessage<DtypeError>(HasSubstr("sub_")));
  EXPECT_THAT([&] { i /= 2; }, ThrowsMessage<DtypeError>(HasSubstr("div_")));
  for (double never : {1e30, -0x1p63, std::nan(""), HUGE_VAL}) {
    EXPECT_THROW(i += never, DtypeError) << never;
    EXPECT_THROW(i *= never, DtypeError) << never;
  }
  EXPECT_THROW(mask.add_(i), DtypeError);
  EXPECT_THROW(mask += 1, DtypeError);
  EXPECT_THAT(writing_values(i), ElementsAre(1, 1));
  Tensor row = zeros({1, 2}, device()), repeated = row.expand({3, 2});
  EXPECT_THAT([&] { repeated.add_(1.0); },
              ThrowsMessage<ShapeError>(HasSubstr("repeats its elements along dimension 0")));
  EXPECT_THROW(repeated.fill_(1), ShapeError);
  EXPECT_THROW(repeated.copy_(ones({3, 2}, device())), ShapeError);
  repeated[0] = 1.0;
  EXPECT_THAT(writing_values(row), ElementsAre(1, 1)) << "one row is not repeated";
}

TEST(HostPointer, WritesCountAsChanges) {
  Tensor seed = ones({});
  *seed.mutable_data<float>() = 5;
  Tensor x = full({2}, 3).requires_grad_();
  (x.sum() * 1.0).backward(seed);
  EXPECT_THAT(writing_values(x.grad()), ElementsAre(5, 5)) << "no longer taken for ones";

  Tensor y = full({2}, 3), z = (x * y).sum();
  y.mutable_data<float>()[0] = 9;
  EXPECT_THAT([&] { z.backward(); }, ThrowsMessage<GradError>(HasSubstr("modified in place")));
  Tensor again = (x * y).sum();
  EXPECT_EQ(y.data<float>()[0], 9);
  again.backward();
}

TEST(HostPointer, WritesAreSeenInsideAnAutocastGuard) {
  Tensor w = ones({2, 2}).requires_grad_(), x = ones({1, 2});
  float* elements = w.mutable_data<float>();
  auto mixed = autocast(bf16);
  EXPECT_EQ(linear(x, w).to(f32).sum().item(), 4);
  elements[0] = 3;
  EXPECT_EQ(linear(x, w).to(f32).sum().item(), 6);
  w.mutable_data<float>()[1] = 2;
  EXPECT_EQ(linear(x, w).to(f32).sum().item(), 7);
}

}  // namespace
}  // namespace etna
