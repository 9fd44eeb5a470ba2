#include "rows.h"

namespace etna {
namespace {

using namespace testing;

std::vector<double> softmax_of(const std::vector<double>& v, bool log) {
  double largest = -kInf, total = 0;
  for (double x : v) largest = std::max(largest, x);
  for (double x : v) total += std::exp(x - largest);
  std::vector<double> y;
  for (double x : v) y.push_back(log ? x - largest - std::log(total) : std::exp(x - largest) / total);
  return y;
}

struct Case {
  Tensor x;
  int dim;
};

std::vector<Case> cases(DType t) {
  std::vector<Case> all;
  for (std::int64_t n : {1, 3, 7, 31, 64, 257, 1031}) {
    all.push_back({random_tensor({5, n}, t, 1, -8, 8), 1});
    all.push_back({random_tensor({n, 5}, t, 2, -8, 8), 0});
    all.push_back({random_tensor({2, n, 19}, t, 2, -8, 8), 1});
  }
  all.push_back({random_tensor({2, 5033}, t, 2, -8, 8), 1});
  all.push_back({random_tensor({}, t), 0});
  all.push_back({random_tensor({3, 0, 2}, t), 1});
  all.push_back({random_tensor({3, 0, 2}, t), 2});
  all.push_back({random_tensor({6, 31, 4}, t).permute({2, 0, 1}), 2});
  all.push_back({random_tensor({6, 31, 4}, t).permute({2, 0, 1}), 0});
  all.push_back({random_tensor({31, 40}, t).slice(0, 1, 30, 3).slice(1, 2, 39, 2), 1});
  all.push_back({random_tensor({31, 1}, t).expand({31, 7}), 1});
  all.push_back({random_tensor({31, 1}, t).expand({31, 7}), 0});
  return all;
}

TEST(Softmax, AgreesWithLoopsOverStridesAndDtypes) {
  for (DType t : {f64, f32, f16, bf16}) {
    for (const Case& c : cases(t)) {
      auto want = [&](bool log) { return map_rows(c.x, c.dim, [log](const auto& v) { return softmax_of(v, log); }); };
      expect_close(softmax(c.x, c.dim), want(false), unit(t), t == f16 ? 1e-7 : 0);
      expect_close(log_softmax(c.x, c.dim), want(true), unit(t), unit(t));
      EXPECT_EQ(softmax(c.x, c.dim).dtype(), t);
    }
  }
}

TEST(Softmax, KeepsNaNVisible) {
  Tensor x = from_vector<float>({1, NAN, 3, 1, 2, 3}, {2, 3});
  EXPECT_TRUE(std::isnan(softmax(x, 1).to_vector<double>()[0]));
  EXPECT_TRUE(std::isnan(log_softmax(x, 1).to_vector<double>()[2]));
  EXPECT_FALSE(std::isnan(softmax(x, 1).to_vector<double>()[3]));
}

TEST(Softmax, OfMinusInfinityAloneIsNaNAndAmongOthersZero) {
  auto inf = -static_cast<float>(kInf);
  Tensor x = from_vector<float>({inf, inf, inf, 0}, {2, 2});
  expect_close(softmax(x, 1), {kNaN, kNaN, 0, 1}, 0);
  expect_close(log_softmax(x, 1), {kNaN, kNaN, -kInf, 0}, 0);
}

TEST(Softmax, SaysWhatIsWrong) {
  EXPECT_THROW(softmax(random_tensor({3, 3}), 2), ShapeError);
  EXPECT_THROW(softmax(random_tensor({3, 3}, i32), 0), DtypeError);
}

TEST(Softmax, GradientsAgreeWithDifferences) {
  for (int dim : {0, 1, 2}) {
    Tensor x = random_tensor({3, 4, 2}).requires_grad_();
    auto soft = [&](const TensorList& in) { return TensorList{softmax(in[0], dim)}; };
    auto log_soft = [&](const TensorList& in) { return TensorList{log_softmax(in[0], dim)}; };
    EXPECT_EQ(autograd::gradcheck(soft, {x}, {.second_order = true}), "");
    EXPECT_EQ(autograd::gradcheck(log_soft, {x}, {.second_order = true}), "");
  }
}

TEST(Softmax, GradientsInShortFloatsFollowThoseInDouble) {
  for (DType t : {f32, f16, bf16}) {
    for (bool log : {false, true}) {
      Tensor x = random_tensor({7, 257}, t).requires_grad_(), exact = x.detach().to(f64).requires_grad_();
      Tensor g = random_tensor({7, 257}, t, 5);
      (log ? log_softmax(x, 1) : softmax(x, 1)).backward(g);
      (log ? log_softmax(exact, 1) : softmax(exact, 1)).backward(g.to(f64));
      expect_close(x.grad(), exact.grad().to_vector<double>(), unit(t), log ? 40 * unit(t) : unit(t) * 0.02);
    }
  }
}

}  // namespace
}  // namespace etna
