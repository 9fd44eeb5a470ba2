#include <algorithm>

#include <ops/rows.h>

namespace etna {
namespace {

using namespace op_tests;

std::vector<double> softmax_of(const std::vector<double>& v, bool log) {
  double largest = -kInf, total = 0;
  for (double x : v) largest = std::max(largest, x);
  for (double x : v) total += std::exp(x - largest);
  std::vector<double> y;
  for (double x : v) y.push_back(log ? x - largest - std::log(total) : std::exp(x - largest) / total);
  return y;
}

struct SoftmaxCase {
  Tensor x;
  int dim;
};

std::vector<SoftmaxCase> softmax_cases(DType t) {
  std::vector<SoftmaxCase> all;
  for (std::int64_t n : {1, 3, 7, 31, 64, 257, 1031}) {
    all.push_back({random_tensor({5, n}, t, 1, -8, 8), 1});
    all.push_back({random_tensor({n, 5}, t, 2, -8, 8), 0});
    all.push_back({random_tensor({2, n, 19}, t, 2, -8, 8), 1});
  }
  for (std::int64_t n : {32, 100, 260, 600, 1028, 2052, 8212})  // multiples of four
    all.push_back({random_tensor({2, n}, t, 3, -8, 8), 1});
  all.push_back({random_tensor({3, 5, 44}, t, 3, -8, 8).slice(2, 4, 44), 2});
  all.push_back({random_tensor({5, 44}, t, 3, -8, 8).slice(1, 1, 41), 1});  // a multiple of four, but not aligned
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
  for (Device device : devices()) {
    for (DType t : floats(device)) {
      for (const SoftmaxCase& c : softmax_cases(t)) {
        auto want = [&](bool log) { return map_rows(c.x, c.dim, [log](const auto& v) { return softmax_of(v, log); }); };
        Tensor x = placed(c.x, device);
        std::string what = str(x.shape()) + " along " + std::to_string(c.dim) + " on " + device.str();
        expect_close(softmax(x, c.dim), want(false), 4 * unit(t), t == f16 ? 1e-7 : 0, what);
        expect_close(log_softmax(x, c.dim), want(true), unit(t), unit(t), what);
        EXPECT_EQ(softmax(x, c.dim).dtype(), t);
      }
    }
  }
}

TEST(Softmax, KeepsNaNVisible) {
  for (Device device : devices()) {
    for (std::int64_t n : {3, 6000}) {
      std::vector<float> values(static_cast<std::size_t>(2 * n), 1.0f);
      values[1] = static_cast<float>(kNaN);
      Tensor x = from_vector(values, {2, n}, device);
      for (const Tensor& y : {softmax(x, 1), log_softmax(x, 1)}) {
        std::vector<double> found = y.to_vector<double>();
        for (std::int64_t i = 0; i < 2 * n; ++i) EXPECT_EQ(std::isnan(found[static_cast<std::size_t>(i)]), i < n);
      }
    }
  }
}

TEST(Softmax, OfMinusInfinityAloneIsNaNAndAmongOthersZero) {
  auto inf = -static_cast<float>(kInf);
  for (Device device : devices()) {
    Tensor x = from_vector<float>({inf, inf, inf, 0}, {2, 2}, device);
    expect_close(softmax(x, 1), {kNaN, kNaN, 0, 1}, 0);
    expect_close(log_softmax(x, 1), {kNaN, kNaN, -kInf, 0}, 0);
    // Long enough to be read twice, with only -inf in most lanes.
    std::vector<float> values(12000, inf);
    std::vector<double> want(12000, 0), want_log(12000, -kInf);
    values[5000] = values[100] = 3;
    want[5000] = want[100] = 0.5;
    want_log[5000] = want_log[100] = std::log(0.5);
    for (std::size_t i = 6000; i < 12000; ++i) want[i] = want_log[i] = kNaN;
    Tensor wide = from_vector(values, {2, 6000}, device);
    expect_close(softmax(wide, 1), want, 1e-6);
    expect_close(log_softmax(wide, 1), want_log, 1e-6);
  }
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
  for (Device device : devices()) {
    for (DType t : {f32, f16, bf16}) {
      for (Shape shape : {Shape{7, 31}, Shape{7, 257}, Shape{2, 5033}, Shape{3, 70, 9}}) {
        for (bool log : {false, true}) {
          Tensor host = random_tensor(shape, t), host_g = random_tensor(shape, t, 5);
          Tensor exact = host.to(f64).clone().requires_grad_(), x = host.clone().to(device).requires_grad_();
          (log ? log_softmax(x, 1) : softmax(x, 1)).backward(host_g.to(device));
          (log ? log_softmax(exact, 1) : softmax(exact, 1)).backward(host_g.to(f64));
          expect_close(x.grad(), exact.grad().to_vector<double>(), unit(t), log ? 40 * unit(t) : unit(t) * 0.05);
        }
      }
    }
  }
}

}  // namespace
}  // namespace etna
