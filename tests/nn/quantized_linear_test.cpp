#include <etna/nn/linear.h>

#include <gtest/gtest.h>

#include <etna/tensor/ops.h>

namespace etna::nn {
namespace {

TEST(QuantizedLinear, IsNearTheLayerItWasMadeOf) {
  manual_seed(4);
  Linear layer(64, 48);
  const QuantizedLinear rounded(layer, quant::format_named("Q8_0"));
  const Tensor x = randn({3, 5, 64});
  const Tensor exact = layer(x).detach(), y = rounded(x);
  EXPECT_EQ(y.shape(), (Shape{3, 5, 48}));
  EXPECT_LT((y - exact).abs().max().item<double>(), 0.03 * exact.abs().max().item<double>());
  EXPECT_TRUE(rounded.parameters().empty());
  EXPECT_EQ(rounded.buffers().size(), 2u);
  EXPECT_EQ(rounded.repr(), "QuantizedLinear(in_features=64, out_features=48, bias=True, format=Q8_0)");
  EXPECT_TRUE(clone_of(rounded)->forward(x).equal(y));
}

TEST(QuantizedLinear, PassesGradientsOn) {
  manual_seed(4);
  Linear layer(32, 8);
  const QuantizedLinear rounded(layer, quant::format_named("F16"));
  Tensor x = randn({2, 32}).requires_grad_();
  rounded(x).sum().backward();
  EXPECT_TRUE(x.grad().allclose(layer.weight.detach().sum({0}).unsqueeze(0).expand({2, 32}), 1e-3, 1e-3));
  EXPECT_FALSE(layer.weight.grad().defined());
}

TEST(QuantizedLinear, RefusesOtherShapes) {
  Linear layer(33, 8);
  EXPECT_THROW(QuantizedLinear(layer, quant::format_named("Q8_0")), ShapeError);
  const QuantizedTensor w = quantize(ones({4, 32}), quant::format_named("Q8_0"));
  EXPECT_THROW(QuantizedLinear(w, ones({3})), ShapeError);
  const QuantizedLinear whole(w);
  EXPECT_THROW(whole(ones({2, 31})), ShapeError);
}

}  // namespace
}  // namespace etna::nn
