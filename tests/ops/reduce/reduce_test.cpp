#include <algorithm>
#include <string_view>

#include <ops/rows.h>

namespace etna {
namespace {

using namespace op_tests;

using Fold = std::function<double(const std::vector<double>&)>;

struct Reduction {
  const char* name;
  std::function<Tensor(const Tensor&, const Dims&, bool)> run;
  Fold fold;
  double tolerance = 1;  ///< in units of the dtype, relative to what the fold adds up
};

double fold_sum(const std::vector<double>& v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}
double fold_var(const std::vector<double>& v) {
  double n = static_cast<double>(v.size()), mean = fold_sum(v) / n, s = 0;
  for (double x : v) s += (x - mean) * (x - mean);
  return s / (n - 1);
}
double fold_logsumexp(const std::vector<double>& v) {
  double m = -kInf, s = 0;
  for (double x : v) m = std::max(m, x);
  if (std::isinf(m)) return m;
  for (double x : v) s += std::exp(x - m);
  return m + std::log(s);
}
double fold_prod(const std::vector<double>& v) {
  double p = 1;
  for (double x : v) p *= x;
  return p;
}

const std::vector<Reduction>& reductions() {
  static const std::vector<Reduction> all = {
      {"sum", [](const Tensor& x, const Dims& d, bool k) { return sum(x, d, k); }, fold_sum},
      {"mean", [](const Tensor& x, const Dims& d, bool k) { return mean(x, d, k); },
       [](const std::vector<double>& v) { return fold_sum(v) / static_cast<double>(v.size()); }},
      {"prod", [](const Tensor& x, const Dims& d, bool k) { return prod(x, d, k); }, fold_prod, 300},
      {"max", [](const Tensor& x, const Dims& d, bool k) { return max(x, d, k); },
       [](const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); }},
      {"min", [](const Tensor& x, const Dims& d, bool k) { return min(x, d, k); },
       [](const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }},
      {"logsumexp", [](const Tensor& x, const Dims& d, bool k) { return logsumexp(x, d, k); }, fold_logsumexp},
      {"var", [](const Tensor& x, const Dims& d, bool k) { return var(x, d, k); }, fold_var},
  };
  return all;
}

/// x's values grouped by output, each group in row-major order.
std::vector<std::vector<double>> groups(const Tensor& x, const Dims& dims) {
  Dims order;
  std::int64_t length = 1;
  for (int d = 0; d < x.dim(); ++d) {
    if (!dims.contains(d)) order.push_back(d);
  }
  for (std::int64_t d : dims) order.push_back(d), length *= x.shape()[static_cast<int>(d)];
  std::vector<double> values = x.permute(order).to_vector<double>();
  std::vector<std::vector<double>> out;
  for (std::size_t at = 0; at < values.size(); at += static_cast<std::size_t>(length)) {
    out.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(at),
                     values.begin() + static_cast<std::ptrdiff_t>(at) + length);
  }
  return out;
}

struct ReduceCase {
  Tensor x;
  Dims dims;
};

/// Rows, columns, both, neither; contiguous, transposed, sliced, expanded; sizes that are no multiple of a tile.
std::vector<ReduceCase> reduce_cases(DType t) {
  std::vector<ReduceCase> all;
  for (std::int64_t n : {1, 3, 7, 31, 257, 1031}) {
    all.push_back({random_tensor({n}, t), {0}});
    all.push_back({random_tensor({5, n}, t), {1}});
    all.push_back({random_tensor({n, 9}, t), {0}});
    all.push_back({random_tensor({n, 3}, t).t(), {1}});
  }
  for (std::int64_t n : {36, 260, 1028}) all.push_back({random_tensor({3, n}, t), {1}});  // multiples of four
  all.push_back({random_tensor({2, 8212}, t), {1}});
  all.push_back({random_tensor({70, 64}, t), {1}});
  all.push_back({random_tensor({5, 7, 44}, t).slice(2, 4, 44), {2}});
  all.push_back({random_tensor({5, 44}, t).slice(1, 1, 41), {1}});  // a multiple of four, but not aligned
  all.push_back({random_tensor({1031, 31}, t), {0}});
  all.push_back({random_tensor({31, 1031}, t), {0}});
  all.push_back({random_tensor({3, 7, 31}, t), {0, 2}});
  all.push_back({random_tensor({3, 7, 31}, t), {1}});
  all.push_back({random_tensor({3, 7, 31}, t), {0, 1, 2}});
  all.push_back({random_tensor({2, 3, 5, 7, 4}, t), {0, 2, 4}});
  all.push_back({random_tensor({2, 3, 5, 7, 4}, t), {1, 3}});
  all.push_back({random_tensor({2, 3, 5, 7, 4}, t).permute({3, 1, 4, 0, 2}), {0, 2}});
  all.push_back({random_tensor({31, 40}, t).slice(0, 1, 30, 3).slice(1, 2, 39, 2), {0}});
  all.push_back({random_tensor({31, 40}, t).slice(0, 1, 30, 3).slice(1, 2, 39, 2), {1}});
  all.push_back({random_tensor({1, 31}, t).expand({7, 31}), {0}});
  all.push_back({random_tensor({31, 1}, t).expand({31, 7}), {1}});
  all.push_back({random_tensor({3, 1, 5}, t), {1}});
  return all;
}

void check(const Reduction& r, const ReduceCase& c, DType t, Device device) {
  Tensor y = r.run(placed(c.x, device), c.dims, true);
  std::vector<double> want;
  double scale = 0;
  for (const auto& group : groups(c.x, c.dims)) {
    want.push_back(r.fold(group));
    for (double v : group) scale = std::max(scale, std::abs(v));
    if (r.name == std::string_view("sum")) scale = std::max(scale, std::sqrt(static_cast<double>(group.size())));
  }
  double u = unit(t);
  expect_close(y, want, u * r.tolerance, r.name == std::string_view("prod") ? 0 : u * scale,
               std::string(r.name) + " of " + str(c.x.shape()) + " over " + str(c.dims) + " on " + device.str());
}

TEST(Reduce, AgreesWithLoopsOverStridesAndDtypes) {
  for (Device device : devices()) {
    for (DType t : floats(device)) {
      for (const Reduction& r : reductions()) {
        // The product of 1031 numbers exceeds the range of f16.
        bool product = r.name == std::string_view("prod");
        for (const ReduceCase& c : reduce_cases(t))
          check(r, product ? ReduceCase{cast(exp(c.x.to(f64) * 0.02), t), c.dims} : c, t, device);
      }
    }
  }
}

TEST(Reduce, SumsAndMultipliesIntegersIn64Bits) {
  for (Device device : devices()) {
    const std::vector<DType> dtypes = {i64, i32, u8, i8, boolean};
    for (DType t : device.is_cpu() ? dtypes : thinned(dtypes)) {
      for (const ReduceCase& c : reduce_cases(t)) {
        Tensor x = placed(c.x, device), y = sum(x, c.dims);
        EXPECT_EQ(y.dtype(), i64);
        std::vector<double> want;
        for (const auto& group : groups(c.x, c.dims)) want.push_back(fold_sum(group));
        expect_close(y, want, 0);
        EXPECT_EQ(prod(x, c.dims).dtype(), i64);
        for (const Reduction& r : reductions()) {
          if (r.name != std::string_view("max") && r.name != std::string_view("min")) continue;
          check(r, c, t, device);
          EXPECT_EQ(r.run(x, c.dims, false).dtype(), t);
        }
      }
    }
    Tensor x = from_vector(std::vector<std::int32_t>{1 << 20, 1 << 20, 3}, device);
    EXPECT_EQ(prod(x).item<std::int64_t>(), 3LL << 40);
  }
}

TEST(Reduce, KeepsOrDropsDimensions) {
  Tensor x = random_tensor({2, 3, 4});
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_EQ(sum(x, {1}).shape(), (Shape{2, 4}));
  EXPECT_EQ(sum(x, {-1, 0}, true).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(sum(scalar(3)).item(), 3);
  EXPECT_EQ(var(scalar(3), {}, false, 0).item(), 0);
  EXPECT_EQ(argmax(scalar(3)).item<std::int64_t>(), 0);
  EXPECT_THROW(sum(x, {3}), ShapeError);
  EXPECT_THROW(sum(x, {1, -2}), ShapeError);
}

TEST(Reduce, OfNothingIsTheNeutralElementOrAnError) {
  for (Device device : devices()) {
    Tensor none = zeros({3, 0}, {f32, device});
    expect_close(sum(none, {1}), {0, 0, 0}, 0);
    expect_close(prod(none, {1}), {1, 1, 1}, 0);
    expect_close(mean(none, {1}), {kNaN, kNaN, kNaN}, 0);
    expect_close(var(none, {1}), {kNaN, kNaN, kNaN}, 0);
    expect_close(logsumexp(none, {1}), {-kInf, -kInf, -kInf}, 0);
    EXPECT_THROW(max(none, {1}), ShapeError);
    EXPECT_THROW(argmin(none, 1), ShapeError);
    EXPECT_EQ(max(none, {0}).shape(), Shape{0});
    EXPECT_THROW(mean(zeros({3}, {i64, device})), DtypeError);
    expect_close(var(ones({1}, {f32, device})), {kNaN}, 0);
  }
}

TEST(Reduce, KeepsNaNAndInfinityVisible) {
  for (Device device : devices()) {
    for (std::int64_t at : {0, 5, 20, 39}) {
      std::vector<float> values(40, 1.0f);
      values[static_cast<std::size_t>(at)] = static_cast<float>(kNaN);
      Tensor x = from_vector(values, {1, 40}, device);
      for (const Tensor& shown : {x, x.expand({9, 40}).t().clone().t()}) {
        for (const Reduction& r : reductions()) {
          EXPECT_TRUE(std::isnan(r.run(shown, {1}, false).to_vector<double>()[0])) << r.name << at << device.str();
        }
        EXPECT_EQ(argmax(shown, 1).to_vector<std::int64_t>()[0], at);
        EXPECT_EQ(argmin(shown, 1).to_vector<std::int64_t>()[0], at);
      }
    }
    auto inf = static_cast<float>(kInf);
    expect_close(logsumexp(from_vector<float>({-inf, -inf}, device)), {-kInf}, 0);
    expect_close(logsumexp(from_vector<float>({-inf, 2, inf}, device)), {kInf}, 0);
    expect_close(logsumexp(from_vector<float>({-inf, 2, -inf}, device)), {2}, 0);
    expect_close(logsumexp(from_vector<float>({1000, 1000}, device)), {1000 + std::log(2)}, 1e-7);
    expect_close(max(from_vector<float>({-inf, -inf}, device)), {-kInf}, 0);
  }
}

TEST(Reduce, ArgFindsTheFirstOfEquals) {
  for (Device device : devices()) {
    for (DType t : {f32, i32, i64}) {
      Tensor x = from_vector<float>({1, 5, 5, 0, 0, 5}, {2, 3}).to(t).to(device);
      expect_close(argmax(x, 1), {1, 2}, 0);
      expect_close(argmin(x, 1), {0, 0}, 0);
      expect_close(argmax(x, 0, true), {0, 0, 0}, 0);
      EXPECT_EQ(argmax(x).item<std::int64_t>(), 1);
      EXPECT_EQ(argmin(x.t()).item<std::int64_t>(), 1);
      for (std::int64_t n : {1031, 2052}) {
        Tensor wide = random_tensor({7, n}, i32, 3).to(t);  // of 15 numbers: each occurs often
        for (int dim : {0, 1}) {
          std::vector<double> want;
          for (const auto& g : groups(wide, {dim})) {
            want.push_back(static_cast<double>(std::max_element(g.begin(), g.end()) - g.begin()));
          }
          expect_close(argmax(wide.to(device), dim), want, 0);
        }
      }
    }
    std::vector<float> ties(70000, 0.5f);
    ties[777] = ties[40000] = 1;
    EXPECT_EQ(argmax(from_vector(ties, device)).item<std::int64_t>(), 777);
  }
}

TEST(Reduce, SumsAMillionFloatsToTheLastDigits) {
  Tensor x = random_tensor({1000, 1000}, f32, 7, 0, 1), far = x + 1e4;
  double want = fold_sum(x.to_vector<double>()), spread = fold_var(far.to_vector<double>());
  for (Device device : devices()) {
    EXPECT_NEAR(sum(x.to(device)).item<double>() / want, 1, device.is_cpu() ? 1e-7 : 5e-7);
    EXPECT_NEAR(var(far.to(device)).item<double>() / spread, 1, device.is_cpu() ? 1e-6 : 1e-5);
  }
}

TEST(Reduce, SplitsTallColumnsAndLongRows) {
  Tensor x = random_tensor({2, 3001, 9}, f32, 7);
  for (Device device : devices()) {
    for (const Reduction& r : reductions()) {
      if (r.name == std::string_view("prod")) continue;
      check(r, {x, {0, 1}}, f32, device);
      check(r, {x, {1}}, f32, device);
      check(r, {x.reshape({2, 27009}), {1}}, f32, device);
    }
    Tensor whole = random_tensor({3001, 9}, i32);
    expect_close(sum(whole.to(device), {0}), sum(whole.to(f64), {0}).to_vector<double>(), 0);
    expect_close(argmin(whole.to(device), 0), argmin(whole, 0).to_vector<double>(), 0);
  }
}

TEST(Reduce, SumToUndoesBroadcasting) {
  Tensor x = random_tensor({4, 3, 5});
  EXPECT_EQ(sum_to(x, {4, 3, 5}).impl(), x.impl());
  expect_close(sum_to(x, {3, 1}), sum(x, {0, 2}).to_vector<double>(), 1e-15);
  EXPECT_EQ(sum_to(x, {3, 1}).shape(), (Shape{3, 1}));
  EXPECT_EQ(sum_to(x, {}).shape(), Shape{});
  EXPECT_THROW(sum_to(x, {4, 5}), ShapeError);
  EXPECT_THROW(sum_to(x, {1, 4, 3, 5}), ShapeError);
}

TEST(Reduce, GradientsAgreeWithDifferences) {
  for (const Reduction& r : reductions()) {
    for (Dims dims : {Dims{1}, Dims{0, 2}, Dims{}}) {
      for (bool keepdim : {false, true}) {
        Tensor x = random_tensor({3, 4, 2}).requires_grad_();
        auto f = [&](const TensorList& in) { return TensorList{r.run(in[0], dims, keepdim)}; };
        EXPECT_EQ(autograd::gradcheck(f, {x}, {.second_order = true}), "") << r.name << str(dims);
      }
    }
  }
}

TEST(Reduce, ProductsOfZerosHaveRightGradients) {
  for (std::vector<double> values : {std::vector<double>{2, 3, 4}, {2, 0, 4}, {0, 3, 0}, {0, 0, 0}}) {
    Tensor x = from_vector(values).requires_grad_();
    auto f = [](const TensorList& in) { return TensorList{prod(in[0])}; };
    EXPECT_EQ(autograd::gradcheck(f, {x}, {.second_order = true}), "");
  }
}

TEST(Reduce, EqualExtremesShareTheGradient) {
  Tensor x = from_vector<float>({1, 3, 3, 2, 2, 0}, {2, 3}).requires_grad_();
  sum(max(x, {1})).backward();
  expect_close(x.grad(), {0, 0.5, 0.5, 0.5, 0.5, 0}, 0);
}

}  // namespace
}  // namespace etna
