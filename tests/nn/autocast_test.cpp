#include <etna/autograd/autograd.h>
#include <etna/models/decoder.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna {
namespace {

class AutocastOn : public OnDevice {
 protected:
  static Tensor random(Shape shape) { return randn(shape, {f32, device()}); }
};
ETNA_ON_EVERY_DEVICE(AutocastOn);

TEST_P(AutocastOn, ComputesProductsInItsDtype) {
  Tensor x = random({4, 8}), w = random({6, 8}), b = random({6}), qkv = random({5, 12});
  for (DType t : {f16, bf16}) {
    auto mixed = autocast(t);
    EXPECT_EQ(linear(x, w, b).dtype(), t);
    EXPECT_EQ(matmul(x, w.t()).dtype(), t);
    EXPECT_EQ(self_attention(qkv, 2).dtype(), t);
    EXPECT_EQ(scaled_dot_product_attention(x.unsqueeze(0), x.unsqueeze(0), x.unsqueeze(0)).dtype(), t);
    const Tensor wide = x.to(kCPU, f64);  // f64 is computed on the CPU only
    EXPECT_EQ(matmul(wide, wide.t()).dtype(), f64);
    {
      auto off = autocast(f32);
      EXPECT_EQ(linear(x, w, b).dtype(), f32);
    }
    EXPECT_EQ(linear(x, w).dtype(), t);
  }
  EXPECT_EQ(linear(x, w, b).dtype(), f32);
  EXPECT_THROW(static_cast<void>(autocast(f64)), DtypeError);
  EXPECT_THROW(static_cast<void>(autocast(i32)), DtypeError);
}

TEST_P(AutocastOn, SumsInF32) {
  Tensor x = random({4, 8}).to(bf16), w = ones({8}, {f32, device()});
  auto mixed = autocast(bf16);
  for (const Tensor& y : {softmax(x, -1), log_softmax(x, -1), logsumexp(x), sum(x), mean(x), prod(x), var(x),
                          cumsum(x, 0), exp(x), log(abs(x) + 1.0), mse_loss(x, x)})
    EXPECT_EQ(y.dtype(), f32);
  EXPECT_EQ((x + x).dtype(), bf16);
  AddedNorm r = add_layer_norm(x.to(f32), x, w, w);
  EXPECT_EQ(r.sum.dtype(), f32);
  EXPECT_EQ(r.normed.dtype(), bf16);
}

TEST_P(AutocastOn, GivesParametersGradientsOfTheirDtype) {
  Tensor w = random({6, 8}).requires_grad_(), x = random({4, 8});
  Tensor y;
  {
    auto mixed = autocast(bf16);
    y = linear(x, w);
    y = sum(y * y);
  }
  y.backward();
  EXPECT_EQ(w.grad().dtype(), f32);
  Tensor exact = w.detach().clone().requires_grad_();
  Tensor z = linear(x, exact);
  sum(z * z).backward();
  expect_near(w.grad(), exact.grad(), 0.15, 0.03);
}

TEST_P(AutocastOn, CastsAParameterOnceAndAgainWhenItChanged) {
  Tensor w = random({6, 8}).requires_grad_(), x = random({4, 8});
  int casts = 0;
  const std::function<void(const OpDef&)> count = [&](const OpDef& op) {
    casts += op.name == std::string("cast") ? 1 : 0;
  };
  auto mixed = autocast(bf16);
  Tensor low = x.to(bf16), before, after;
  auto casts_of = [&](Tensor& y) {
    casts = 0;
    y = linear(low, w);
    return casts;
  };
  std::optional<Override<const std::function<void(const OpDef&)>*>> scope(std::in_place, &Overrides::on_op, &count);
  const int fresh = casts_of(before), kept = casts_of(before);  // CPU kernels may cast too, so the difference counts
  {
    GradMode off(false);
    w.mul_(2);
  }
  const int changed = casts_of(after);
  scope.reset();
  EXPECT_EQ(fresh, kept + 1);
  EXPECT_EQ(changed, fresh);
  expect_near(after, before * 2.0, 1e-6);
}

TEST_P(AutocastOn, RecomputesACheckpointAsItWas) {
  Tensor w = random({8, 8}).requires_grad_(), x = random({4, 8}).requires_grad_();
  auto f = [&](const TensorList& in) { return TensorList{linear(gelu(linear(in[0], w)), w)}; };
  auto gradient = [&](bool checkpointed) {
    w.set_grad({});
    Tensor y;
    {
      auto mixed = autocast(bf16);
      y = checkpointed ? autograd::checkpoint(f, {x})[0] : f({x})[0];
      y = sum(y);
    }
    y.backward();
    return w.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST_P(AutocastOn, IsPartOfWhatAStepWasCapturedFor) {
  Tensor w = random({6, 8}).requires_grad_();
  auto step = capture([&](const Tensor& x) { return linear(x, w); }, {.device = device()});
  Tensor x = from_vector(std::vector<float>(32, 0.3f), {4, 8});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(step(x).dtype(), f32);
    auto mixed = autocast(bf16);
    EXPECT_EQ(step(x).dtype(), bf16);
  }
  EXPECT_EQ(step.captures(), 2);
  // A capture casts again at every replay, whatever the guard around it has cached.
  auto mixed = autocast(bf16);
  Tensor before = step(x).clone();
  {
    GradMode off(false);
    w.mul_(2);
  }
  expect_near(step(x), before * 2.0, 1e-6);
}

TEST_P(AutocastOn, FollowsF32ThroughADecoder) {
  manual_seed(5);
  models::Decoder model(models::decoder_config(
      "gpt2", {.vocabulary = 41, .context = 8, .width = 16, .layers = 2, .heads = 2, .feed_forward = 32}));
  model.to(device());
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 24; ++i) ids.push_back(i * 7 % 41);
  Tensor x = from_vector(ids, {3, 8}).to(device()), y = from_vector(ids, {3, 8}).to(device());
  auto run = [&](DType t) {
    model.zero_grad();
    Tensor loss;
    {
      auto mixed = autocast(t);
      loss = model.loss(x, y);
    }
    loss.backward();
    std::vector<double> gradients;
    for (const Tensor& p : model.parameters()) {
      EXPECT_EQ(p.grad().dtype(), f32);
      for (double g : p.grad().to_vector<double>()) gradients.push_back(g);
    }
    return std::pair{loss.item<double>(), gradients};
  };
  auto [loss, exact] = run(f32);
  double size = 0;
  for (double g : exact) size += g * g;
  for (auto [t, bound] : tried<std::pair<DType, double>>({{bf16, 2e-2}, {f16, 4e-3}})) {
    auto [low_loss, low] = run(t);
    EXPECT_NEAR(low_loss, loss, bound);
    double error = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) error += (low[i] - exact[i]) * (low[i] - exact[i]);
    EXPECT_LT(std::sqrt(error / size), bound) << name(t);
  }
}

}  // namespace
}  // namespace etna
