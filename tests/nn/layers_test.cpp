#include <cmath>

#include <gmock/gmock.h>

#include <etna/autograd/autograd.h>
#include <etna/device/kernel.h>
#include <etna/nn/nn.h>
#include <etna/tensor/ops.h>
#include <nn/on_device.h>

namespace etna::nn {
namespace {

class Layers : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    manual_seed(11);
  }
  static Tensor draw(Shape shape) { return randn(shape, {f32, device()}); }
};

TEST_P(Layers, AreTheOpsTheyAreMadeOf) {
  Tensor x = draw({4, 6});
  Linear linear(6, 3), bare(6, 3, false);
  linear.to(device()), bare.to(device());
  expect_near(linear(x), matmul(x, linear.weight.t()) + linear.bias, 1e-5);
  EXPECT_FALSE(bare.bias.defined());
  expect_near(bare(x), matmul(x, bare.weight.t()), 1e-5);

  LayerNorm norm(6);
  norm.to(device());
  Tensor centred = x - mean(x, {-1}, true);
  expect_near(norm(x), centred / sqrt(mean(square(centred), {-1}, true) + 1e-5), 1e-5);
  RMSNorm rms(6);
  rms.to(device());
  expect_near(rms(x), x / sqrt(mean(square(x), {-1}, true) + 1e-6), 1e-5);
  Tensor more = draw({4, 6});
  AddedNorm layer = add_layer_norm(x, more, norm.weight, norm.bias), root = add_rms_norm(x, more, rms.weight);
  expect_near(norm(x + more), layer.normed, 1e-5);
  expect_near(rms(x + more), root.normed, 1e-5);
  EXPECT_EQ((x + more).to_vector<float>(), layer.sum.to_vector<float>());
  EXPECT_EQ((x + more).to_vector<float>(), root.sum.to_vector<float>());

  Embedding table(10, 4);
  table.to(device());
  Tensor index = from_vector<std::int32_t>({3, 9, 3}, device());
  EXPECT_EQ(table(index)[1].to_vector<float>(), table.weight[9].to_vector<float>());

  EXPECT_EQ(ReLU()(x).to_vector<float>(), relu(x).to_vector<float>());
  EXPECT_EQ(SiLU()(x).to_vector<float>(), silu(x).to_vector<float>());
  EXPECT_EQ(GELU()(x).to_vector<float>(), gelu(x).to_vector<float>());
  EXPECT_EQ(GELU(true)(x).to_vector<float>(), gelu_tanh(x).to_vector<float>());
}

/// Self-attention head by head.
Tensor attention_by_hand(const MultiheadAttention& m, const Tensor& x, bool causal) {
  const std::int64_t dim = m.embed_dim, size = dim / m.num_heads, t = x.size(-2);
  const Tensor all = linear(x, m.in_proj_weight, m.in_proj_bias);
  const Tensor later = triu(ones({t, t}, {f32, x.device()}), 1) > 0.5;
  std::vector<Tensor> heads;
  for (std::int64_t at = 0; at < dim; at += size) {
    const Tensor q = all.slice(-1, at, at + size), k = all.slice(-1, dim + at, dim + at + size),
                 v = all.slice(-1, 2 * dim + at, 2 * dim + at + size);
    Tensor scores = matmul(q, k.t()) / std::sqrt(static_cast<double>(size));
    if (causal) scores = masked_fill(scores, later, -1e30);
    heads.push_back(matmul(softmax(scores, -1), v));
  }
  return m.out_proj(cat(heads, -1));
}

TEST_P(Layers, AnEmbeddingMayHaveARowForPadding) {
  Embedding table(5, 3, {.padding_idx = -2});
  EXPECT_EQ(table.options.padding_idx, 3);
  EXPECT_EQ(table.extra_repr(), "5, 3, padding_idx=3");
  table.to(device());
  EXPECT_EQ(table.weight[3].to_vector<float>(), std::vector<float>(3, 0));
  table(from_vector<std::int64_t>({1, 3, 3, 4}, device())).sum().backward();
  EXPECT_EQ(table.weight.grad().to_vector<float>(), std::vector<float>({0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1}));
  EXPECT_THROW(Embedding(5, 3, {.padding_idx = 5}), IndexError);
  EXPECT_THROW(Embedding(5, 3, {.padding_idx = -6}), IndexError);
}

TEST_P(Layers, AttentionIsSoftmaxHeadByHead) {
  Tensor x = draw({2, 5, 8});
  for (const bool bias : {true, false}) {
    for (const bool causal : {true, false}) {
      MultiheadAttention attention(8, 4, {.bias = bias, .batch_first = true});
      attention.to(device());
      Tensor y = attention(x, x, x, {.is_causal = causal}, false).output,
             wanted = attention_by_hand(attention, x, causal);
      expect_near(y, wanted, 2e-6, 1e-5);
      sum(square(y)).backward();
      Tensor grad = attention.in_proj_weight.grad();
      attention.zero_grad();
      sum(square(wanted)).backward();
      expect_near(grad, attention.in_proj_weight.grad(), 2e-5, 1e-4);
    }
  }
  EXPECT_THROW(MultiheadAttention(8, 3), ShapeError);
}

/// Projection, attention on its result in place, and the output projection: nothing is copied in between.
TEST_P(Layers, SelfAttentionReadsItsProjectionInPlace) {
  if (device().is_cpu()) GTEST_SKIP() << "counts dispatches";
  const NoGrad off;
  MultiheadAttention attention(8, 4, {.batch_first = true});
  attention.to(device());
  const Tensor x = draw({2, 5, 8});
  const auto dispatches = [&](const std::function<Tensor()>& f) {
    f();
    synchronize(device());
    const auto before = gpu::queue_stats(device()).dispatches;
    f();
    synchronize(device());
    return gpu::queue_stats(device()).dispatches - before;
  };
  EXPECT_EQ(dispatches([&] { return attention(x, x, x, {.is_causal = true}, false).output; }), dispatches([&] {
              const Tensor qkv = linear(x, attention.in_proj_weight, attention.in_proj_bias);
              return attention.out_proj(self_attention(qkv, 4, 0, true));
            }));
}

TEST_P(Layers, ATransformerLayerAddsItsTwoParts) {
  Tensor x = draw({2, 5, 8});
  TransformerEncoderLayer layer(8, 2,
                                {.dim_feedforward = 16,
                                 .dropout = 0,
                                 .activation = Activation::gelu_tanh,
                                 .batch_first = true,
                                 .norm_first = true});
  layer.to(device());
  const Tensor n = layer.norm1(x);
  Tensor y = x + layer.self_attn(n, n, n, {}, false).output;
  y = y + layer.linear2(gelu_tanh(layer.linear1(layer.norm2(y))));
  expect_near(layer(x), y, 1e-6, 1e-5);

  Tensor delta = draw({5, 8}), sum = x + delta;
  expect_near(layer(x + delta), layer(sum.clone()), 1e-6, 1e-5);
}

TEST_P(Layers, SequentialChains) {
  Sequential net;
  net.add<Linear>(4, 3).add<ReLU>().add<Linear>(3, 2);
  net.to(device());
  Tensor x = draw({5, 4});
  EXPECT_EQ(net.parameters().size(), 4u);
  EXPECT_EQ(net.named_parameters()[2].name, "2.weight");
  auto& first = dynamic_cast<Linear&>(net.modules[0]);
  auto& last = dynamic_cast<Linear&>(net.modules[2]);
  expect_near(net(x), last(relu(first(x))), 1e-6);
}

TEST_P(Layers, LossesTakeTheClassesInDimensionOne) {
  for (std::int64_t classes : {5, 3}) {  // 3: as many as the dimension behind them
    Tensor logits = draw({2, classes, 3}),
           target = from_vector<std::int64_t>({0, classes - 1, -100, 2, 2, 1}, {2, 3}, device());
    Tensor rows = log_softmax(logits.permute({0, 2, 1}).reshape({6, classes}), -1);
    std::vector<double> all;
    double total = 0;
    for (std::int64_t i : {0, 1, 2, 3, 4, 5}) {
      std::int64_t t = target.reshape({6})[i].item<std::int64_t>();
      all.push_back(t < 0 ? 0 : -rows[i][t].item<double>());
      total += all.back();
    }
    expect_near(CrossEntropyLoss(-100, 0, Reduction::none)(logits, target), all, 1e-6);
    EXPECT_EQ(CrossEntropyLoss(-100, 0, Reduction::none)(logits, target).shape(), Shape({2, 3}));
    EXPECT_NEAR(CrossEntropyLoss()(logits, target).item<double>(), total / 5, 1e-6);
    const Tensor log_probs = rows.reshape({2, 3, classes}).permute({0, 2, 1});
    EXPECT_NEAR(NLLLoss(-100, Reduction::sum)(log_probs, target).item<double>(), total, 1e-5);
    EXPECT_EQ(NLLLoss(-100, Reduction::none)(log_probs, target).shape(), Shape({2, 3}));
    EXPECT_NEAR(cross_entropy(logits[0].t()[0], target[0][0]).item<double>(), all[0], 1e-6) << "one row of classes";

    Tensor leaf = logits.detach().clone().requires_grad_();
    cross_entropy(leaf, target).backward();
    Tensor flat = logits.permute({0, 2, 1}).reshape({6, classes}).requires_grad_();
    cross_entropy(flat, target.reshape({6})).backward();
    expect_near(leaf.grad(), flat.grad().reshape({2, 3, classes}).permute({0, 2, 1}), 1e-7);
  }
  Tensor x = draw({2, 3});
  EXPECT_NEAR(MSELoss()(x, x + 2.0).item<double>(), 4, 1e-5);
}

ETNA_ON_EVERY_DEVICE(Layers);

}  // namespace
}  // namespace etna::nn
