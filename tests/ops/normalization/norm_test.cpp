#include <ops/rows.h>

namespace etna {
namespace {

using namespace op_tests;

std::vector<double> norm_of(const std::vector<double>& v, bool rms, double eps) {
  double n = static_cast<double>(v.size()), mean = 0, squares = 0;
  for (double x : v) mean += rms ? 0 : x / n;
  for (double x : v) squares += (x - mean) * (x - mean);
  std::vector<double> y;
  for (double x : v) y.push_back((x - mean) / std::sqrt(squares / n + eps));
  return y;
}

std::vector<double> expected(const Tensor& x, const Tensor& weight, const Tensor& bias, bool rms, double eps) {
  std::vector<double> y = map_rows(x, x.dim() - 1, [&](const auto& v) { return norm_of(v, rms, eps); });
  auto n = static_cast<std::size_t>(x.size(-1));
  std::vector<double> w = weight.defined() ? weight.to_vector<double>() : std::vector<double>(n, 1);
  std::vector<double> b = bias.defined() ? bias.to_vector<double>() : std::vector<double>(n, 0);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = y[i] * w[i % n] + b[i % n];
  return y;
}

std::vector<Tensor> inputs(DType t) {
  std::vector<Tensor> all;
  for (std::int64_t n : {1, 3, 7, 31, 257, 1031}) all.push_back(random_tensor({5, n}, t));
  all.push_back(random_tensor({2, 16384}, t));
  all.push_back(random_tensor({31}, t));
  all.push_back(random_tensor({0, 3}, t));
  all.push_back(random_tensor({3, 0}, t));
  all.push_back(random_tensor({6, 31, 4}, t).permute({2, 1, 0}));
  all.push_back(random_tensor({31, 40}, t).slice(0, 1, 30, 3).slice(1, 2, 39, 2));
  all.push_back(random_tensor({1, 31}, t).expand({7, 31}));
  return all;
}

TEST(Norm, AgreesWithLoopsOverStridesAndDtypes) {
  for (Device device : devices()) {
    for (DType t : floats(device)) {
      for (const Tensor& host : inputs(t)) {
        Tensor x = placed(host, device);
        std::int64_t n = host.size(-1);
        std::string what = str(host.shape()) + " on " + device.str();
        auto check = [&](const Tensor& y, const std::vector<double>& want) {
          expect_close(y, want, unit(t), 2 * unit(t), what);
        };
        for (DType tw : {t, f32}) {
          Tensor host_w = random_tensor({2 * n}, tw, 3).slice(0, 0, 2 * n, 2), host_b = random_tensor({n}, tw, 4);
          Tensor w = placed(host_w, device), b = host_b.to(device);
          check(layer_norm(x, w, b), expected(host, host_w, host_b, false, 1e-5));
          check(rms_norm(x, w), expected(host, host_w, {}, true, 1e-6));
          if (t != f32) continue;
          check(layer_norm(x, w, {}), expected(host, host_w, {}, false, 1e-5));
          check(layer_norm(x, {}, b), expected(host, {}, host_b, false, 1e-5));
          check(rms_norm(x, {}, 0.1), expected(host, {}, {}, true, 0.1));
        }
        EXPECT_EQ(layer_norm(x, {}, {}).dtype(), t);
      }
    }
  }
}

TEST(AddNorm, AddsAndNormalizesWhatItStored) {
  for (Device device : devices()) {
    for (DType t : floats(device)) {
      for (std::int64_t n : {1, 7, 257, 1031, 5003}) {
        Tensor x = random_tensor({6, n}, t), w = random_tensor({n}, t, 3), b = random_tensor({n}, t, 4);
        for (const Tensor& delta : {random_tensor({6, n}, t, 2), random_tensor({3, 2, n}, t, 2).permute({1, 0, 2}),
                                    random_tensor({n}, t, 2)}) {
          Tensor wide = delta.dim() == 3 ? x.reshape({2, 3, n}) : x, sum = wide + delta;
          AddedNorm layer = add_layer_norm(wide.to(device), delta.to(kCPU).to(device), w.to(device), b.to(device));
          EXPECT_EQ(layer.sum.to_vector<double>(), sum.to_vector<double>());
          expect_close(layer.normed, expected(sum, w, b, false, 1e-5), unit(t), 2 * unit(t), device.str());
          AddedNorm rms = add_rms_norm(wide.to(device), delta.to(device), w.to(device));
          EXPECT_EQ(rms.sum.to_vector<double>(), sum.to_vector<double>());
          expect_close(rms.normed, expected(sum, w, {}, true, 1e-6), unit(t), 2 * unit(t), device.str());
        }
      }
    }
  }
}

TEST(AddNorm, GivesBothTermsTheGradientOfTheirSum) {
  for (Device device : devices()) {
    Tensor x = random_tensor({4, 67}, f32).to(device), delta = random_tensor({4, 67}, f32, 2).to(device);
    Tensor w = random_tensor({67}, f32, 3).to(device), b = random_tensor({67}, f32, 4).to(device);
    Tensor g_sum = random_tensor({4, 67}, f32, 5).to(device), g = random_tensor({4, 67}, f32, 6).to(device);
    TensorList leaves = {x.clone(), delta.clone(), w.clone(), b.clone()}, same = {x.clone(), delta.clone(), w, b};
    for (Tensor& v : leaves) v.requires_grad_();
    for (Tensor& v : same) v = v.detach().clone().requires_grad_();
    auto [sum, normed] = add_layer_norm(leaves[0], leaves[1], leaves[2], leaves[3]);
    TensorList found = autograd::grad(TensorList{sum, normed}, leaves, TensorList{g_sum, g});
    Tensor apart = same[0] + same[1];
    TensorList wanted =
        autograd::grad(TensorList{apart, layer_norm(apart, same[2], same[3])}, same, TensorList{g_sum, g});
    EXPECT_EQ(found[0].to_vector<float>(), found[1].to_vector<float>());
    for (std::size_t i = 0; i < 4; ++i) expect_close(found[i], wanted[i].to_vector<double>(), 1e-6, 1e-6);
  }
}

TEST(AddNorm, KeepsTheSumForBackwardAndNeitherTerm) {
  Tensor leaf = random_tensor({4, 7}, f32).requires_grad_();
  Tensor x = leaf * 2.0, delta = leaf * 3.0;
  std::weak_ptr<Storage> of_x = x.storage(), of_delta = delta.storage();
  Tensor y = add_layer_norm(x, delta, {}, {}).normed;
  x = delta = Tensor();
  EXPECT_TRUE(of_x.expired());
  EXPECT_TRUE(of_delta.expired());
  y.backward(ones_like(y));
  EXPECT_TRUE(leaf.grad().defined());
}

TEST(Norm, KeepsDigitsWhereTheMeanIsLarge) {
  Tensor x = random_tensor({3, 512}, f32, 1, 4096, 4097);
  std::vector<double> want = expected(x, {}, {}, false, 1e-5);
  for (Device device : devices()) expect_close(layer_norm(x.to(device), {}, {}), want, 1e-6, 2e-6);
}

TEST(Norm, KeepsDigitsWhereARowBeginsFarFromTheRest) {
  for (std::int64_t n : {64, 771, 768, 4096}) {
    Tensor x = random_tensor({3, n}, f64);
    x.slice(1, 0, 8).copy_(random_tensor({3, 8}, f64, 2, 3000, 3001));
    x = x.to(f32);
    std::vector<double> want = expected(x, {}, {}, false, 1e-5);
    for (Device device : devices()) expect_close(layer_norm(x.to(device), {}, {}), want, 3e-6, 1e-6, str(x.shape()));
  }
}

TEST(Norm, KeepsNaNVisible) {
  for (Device device : devices()) {
    Tensor x = from_vector<float>({1, NAN, 3, 1, 2, 3}, {2, 3}, device);
    for (const Tensor& y : {layer_norm(x, {}, {}), rms_norm(x, {})}) {
      EXPECT_TRUE(std::isnan(y.to_vector<double>()[0]));
      EXPECT_FALSE(std::isnan(y.to_vector<double>()[3]));
    }
  }
}

TEST(Norm, SaysWhatIsWrong) {
  Tensor x = random_tensor({3, 4}, f32);
  EXPECT_THROW(layer_norm(x, zeros({3}), {}), ShapeError);
  EXPECT_THROW(layer_norm(x, {}, zeros({1, 4})), ShapeError);
  EXPECT_THROW(rms_norm(scalar(1), {}), ShapeError);
  EXPECT_THROW(rms_norm(x.to(i32), {}), DtypeError);
  EXPECT_THROW(add_layer_norm(x, zeros({4, 4}), {}, {}), ShapeError);
  EXPECT_THROW(add_layer_norm(x, zeros({1, 4}), {}, {}), ShapeError);
  EXPECT_THROW(add_rms_norm(x, zeros({2, 3, 4}), {}), ShapeError);
  EXPECT_THROW(add_rms_norm(x, scalar(1), {}), ShapeError);
  EXPECT_THROW(add_layer_norm(x, zeros({3, 4}).to(i32), {}, {}), DtypeError);
}

TEST(Norm, GradientsAgreeWithDifferences) {
  Tensor x = random_tensor({2, 3, 5}).requires_grad_(), w = random_tensor({5}, f64, 2).requires_grad_();
  Tensor b = random_tensor({5}, f64, 3).requires_grad_();
  using autograd::gradcheck;
  autograd::GradcheckOptions twice{.second_order = true};
  EXPECT_EQ(
      gradcheck([](const TensorList& in) { return TensorList{layer_norm(in[0], in[1], in[2])}; }, {x, w, b}, twice),
      "");
  EXPECT_EQ(gradcheck([](const TensorList& in) { return TensorList{layer_norm(in[0], {}, in[1])}; }, {x, b}, twice),
            "");
  EXPECT_EQ(gradcheck([](const TensorList& in) { return TensorList{layer_norm(in[0], in[1], {})}; }, {x.detach(), w}),
            "");
  EXPECT_EQ(gradcheck([](const TensorList& in) { return TensorList{layer_norm(in[0], {}, {})}; }, {x}), "");
  EXPECT_EQ(gradcheck([](const TensorList& in) { return TensorList{rms_norm(in[0], in[1])}; }, {x, w}, twice), "");
  EXPECT_EQ(gradcheck([](const TensorList& in) { return TensorList{rms_norm(in[0], {})}; }, {x}), "");
}

TEST(Norm, GradientsInShortFloatsFollowThoseInDouble) {
  for (Device device : devices()) {
    for (DType t : {f32, f16, bf16}) {
      for (Shape shape : {Shape{150, 67}, Shape{37, 3}, Shape{5, 2, 300}, Shape{67, 1031}, Shape{19, 5003}}) {
        for (bool rms : {false, true}) {
          if (t != f32 && shape.back() > 300) continue;
          std::int64_t n = shape.back();
          TensorList in = {random_tensor(shape, t), random_tensor({n}, f32, 2), random_tensor({n}, f32, 3)}, exact;
          for (Tensor& v : in)
            exact.push_back(v.to(f64).clone().requires_grad_()), v = v.clone().to(device).requires_grad_();
          Tensor g = random_tensor(shape, t, 5);
          auto run = [&](const TensorList& v) { return rms ? rms_norm(v[0], v[1]) : layer_norm(v[0], v[1], v[2]); };
          run(in).backward(g.to(device));
          run(exact).backward(g.to(f64));
          for (std::size_t i = 0; i < (rms ? 2u : 3u); ++i) {
            EXPECT_EQ(in[i].grad().dtype(), in[i].dtype());
            expect_close(in[i].grad(), exact[i].grad().to_vector<double>(), unit(t),
                         i != 0 ? 2e-5 : (n < 8 ? 40 : 4) * unit(t), str(shape) + " on " + device.str());
          }
        }
      }
    }
  }
}

TEST(Norm, GivesTheParametersOfNoRowsZeroGradients) {
  for (Device device : devices()) {
    Tensor x = zeros({0, 3}, {f32, device}), w = ones({3}, {f32, device}).requires_grad_(),
           b = ones({3}, {f32, device}).requires_grad_();
    layer_norm(x, w, b).backward(zeros({0, 3}, {f32, device}));
    expect_close(w.grad(), {0, 0, 0}, 0);
    expect_close(b.grad(), {0, 0, 0}, 0);
  }
}

}  // namespace
}  // namespace etna
