#include <functional>
#include <sstream>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/etna.h>

// What people type who come from PyTorch.
namespace etna {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<double> syntax_values(const Tensor& x) { return x.to_vector<double>(); }

TEST(Syntax, TensorsFromNestedLists) {
  EXPECT_EQ(tensor({1., 2.}).dtype(), f32);
  EXPECT_THAT(syntax_values(tensor({1., 2.})), ElementsAre(1, 2));
  EXPECT_EQ(tensor({{1, 2, 3}, {4, 5, 6}}).shape(), (Shape{2, 3}));
  EXPECT_EQ(tensor({{1, 2, 3}, {4, 5, 6}}).dtype(), i64);
  EXPECT_THAT(syntax_values(tensor({{1, 2}, {3, 4}})), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(tensor({{{1.5f}}}).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(tensor(3).shape(), Shape());
  EXPECT_EQ(tensor(2.5).item(), 2.5f);
  EXPECT_EQ(tensor({true, false}).dtype(), boolean);
  EXPECT_EQ(tensor({true, false}, kCPU).dtype(), boolean);
  EXPECT_EQ(tensor({1, 2.5, true}).dtype(), f32);
  EXPECT_EQ(tensor({1, 2}, f64).dtype(), f64);
  EXPECT_EQ(tensor({}).shape(), (Shape{0}));
  EXPECT_EQ(tensor({{}, {}}).shape(), (Shape{2, 0}));
  EXPECT_THAT(syntax_values(tensor(std::vector<int>{3, 4})), ElementsAre(3, 4));
  EXPECT_EQ(tensor({std::int64_t{1} << 62}).item<std::int64_t>(), std::int64_t{1} << 62);
  EXPECT_THAT([] { tensor({{1, 2}, {3}}); }, ThrowsMessage<ShapeError>(HasSubstr("a list of 1 at depth 1")));
  EXPECT_THAT([] { tensor({{1, 2}, 3}); }, ThrowsMessage<ShapeError>(HasSubstr("a number at depth 1")));
  EXPECT_THAT([] { tensor({1, {2, 3}}); }, ThrowsMessage<ShapeError>(HasSubstr("a list at depth 1")));
  EXPECT_THROW(tensor({1.5}, i64), DtypeError);
  EXPECT_THROW(tensor({300}, u8), DtypeError);
}

TEST(Syntax, SizesAndDimensionsAreNumbersOrLists) {
  EXPECT_EQ(zeros(5).shape(), (Shape{5}));
  Tensor x = arange(6).reshape({2, 3}).to(f32);
  EXPECT_THAT(syntax_values(sum(x, 1)), ElementsAre(3, 12));
  EXPECT_THAT(syntax_values(x.mean(-1)), ElementsAre(1, 4));
  EXPECT_EQ(x.sum({0, 1}).item(), 15);
  EXPECT_EQ(x.sum().item(), 15);
  EXPECT_THAT(syntax_values(x.sum(0, true)), ElementsAre(3, 5, 7));
  EXPECT_EQ(x.reshape(-1).shape(), (Shape{6}));
  EXPECT_THAT(syntax_values(x.argmax(1)), ElementsAre(2, 2));
  EXPECT_EQ(zeros({2}, f64).dtype(), f64);
  EXPECT_EQ(randn({2}, f64).dtype(), f64);
  EXPECT_EQ(randn({2}, kCPU).device(), kCPU);
  EXPECT_EQ(rand(3, {f16, kCPU}).dtype(), f16);
}

TEST(Syntax, OpsAreMethods) {
  Tensor x = tensor({0., 1.});
  EXPECT_EQ(syntax_values(x.exp()), syntax_values(exp(x)));
  EXPECT_EQ(syntax_values(x.add(1).pow(2.0).sqrt()), syntax_values(x + 1.0));
  EXPECT_EQ(syntax_values(x.maximum(x.neg())), syntax_values(x));
  EXPECT_EQ(syntax_values(x.where(x > 0.5, -1)), syntax_values(tensor({-1., 1.})));
  EXPECT_EQ(syntax_values(x.softmax(0)), syntax_values(softmax(x, 0)));
  EXPECT_EQ(syntax_values(x.clamp(0.5)), syntax_values(tensor({0.5, 1.})));
  EXPECT_EQ(x.max().item(), 1);
  EXPECT_EQ(syntax_values(x.cumsum(0)), syntax_values(tensor({0., 1.})));
}

TEST(Syntax, LogicOnMasks) {
  Tensor x = tensor({1, 2, 3, 4});
  EXPECT_THAT(((x > 1) & (x < 4)).to_vector<std::uint8_t>(), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(((x < 2) | (x == 4)).to_vector<std::uint8_t>(), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(((x < 3) ^ (x > 1)).to_vector<std::uint8_t>(), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT((~(x < 3)).to_vector<std::uint8_t>(), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT([&] { x.to(f32) & x; },
              ThrowsMessage<DtypeError>(HasSubstr("bitwise_and: takes integers or bool, not f32")));
  EXPECT_THAT([&] { where(x.to(f32), 1.0, x.to(f32)); },
              ThrowsMessage<DtypeError>(HasSubstr("the condition holds f32, it must be bool")));
}

TEST(Syntax, ValuesAndListsInBothDirections) {
  EXPECT_THAT(syntax_values(from_vector({1.f, 2.f})), ElementsAre(1, 2));
  EXPECT_EQ(from_vector({1.f, 2.f}, {2, 1}).shape(), (Shape{2, 1}));
  EXPECT_EQ(tensor(7).item<std::size_t>(), 7u);
  EXPECT_EQ(tensor(7).item<long long>(), 7);
  EXPECT_EQ(tensor(2.5).item<long double>(), 2.5);
  EXPECT_THAT([] { tensor(-1).item<std::size_t>(); }, ThrowsMessage<Error>(HasSubstr("item: -1 does not fit")));
  EXPECT_THROW(tensor(70000).item<short>(), Error);
  EXPECT_EQ(zeros(2).to("cpu").device(), kCPU);
  EXPECT_THROW(zeros(2).to("cuda"), DeviceError);
  std::ostringstream out;
  out << zeros({2, 3}).shape();
  EXPECT_EQ(out.str(), "[2, 3]");
}

TEST(Syntax, RangesHaveTheDtypeOfTheirNumbers) {
  EXPECT_EQ(arange(3).dtype(), i64);
  EXPECT_EQ(arange(0, 3).dtype(), i64);
  EXPECT_EQ(arange(3.0).dtype(), f32);
  EXPECT_THAT(syntax_values(arange(0, 1, 0.25)), ElementsAre(0, 0.25, 0.5, 0.75));
  EXPECT_THAT([] { arange(0, 1, 0.25, i64); }, ThrowsMessage<DtypeError>(HasSubstr("i64 cannot hold")));
  EXPECT_THAT(syntax_values(arange(5, 0, -2)), ElementsAre(5, 3, 1));
  EXPECT_EQ(arange(0, -3).numel(), 0);
  const std::int64_t big = (std::int64_t{1} << 62) + 1;
  EXPECT_EQ(arange(big, big + 2)[1].item<std::int64_t>(), big + 1) << "whole numbers stay exact";
  EXPECT_THROW(arange(0, 5, 0), ShapeError);
  EXPECT_THROW(arange(INT64_MIN, INT64_MAX, 1), ShapeError);
  EXPECT_EQ(arange(INT64_MIN, INT64_MAX, INT64_MAX).numel(), 3);
}

TEST(Syntax, UndefinedTensorsAreNamedByOpAndOperand) {
  const Tensor x = zeros({2, 2}), no, index = zeros({2}, i64);
  const std::pair<const char*, std::function<Tensor()>> calls[] = {
      {"add: operand 2", [&] { return x + no; }},
      {"exp: operand 1", [&] { return exp(no); }},
      {"where: operand 1", [&] { return where(no, x, x); }},
      {"matmul: operand 1", [&] { return matmul(no, x); }},
      {"matmul: operand 2", [&] { return matmul(x, no); }},
      {"linear: operand 2", [&] { return linear(x, no); }},
      {"linear: operand 1", [&] { return linear(no, x); }},
      {"softmax: operand 1", [&] { return softmax(no, 0); }},
      {"log_softmax: operand 1", [&] { return log_softmax(no, 0); }},
      {"sum: operand 1", [&] { return sum(no); }},
      {"mean: operand 1", [&] { return mean(no, 1); }},
      {"max: operand 1", [&] { return max(no); }},
      {"var: operand 1", [&] { return var(no); }},
      {"argmax: operand 1", [&] { return argmax(no, 0); }},
      {"cumsum: operand 1", [&] { return cumsum(no, 0); }},
      {"tril: operand 1", [&] { return tril(no); }},
      {"layer_norm: operand 1", [&] { return layer_norm(no, {}, {}); }},
      {"rms_norm: operand 1", [&] { return rms_norm(no, {}); }},
      {"scaled_dot_product_attention: operand 2", [&] { return scaled_dot_product_attention(x, no, x); }},
      {"self_attention: operand 1", [&] { return self_attention(no, 1); }},
      {"cross_entropy: operand 1", [&] { return cross_entropy(no, index); }},
      {"cross_entropy: operand 2", [&] { return cross_entropy(x, no); }},
      {"nll_loss: operand 1", [&] { return nll_loss(no, index); }},
      {"mse_loss: operand 2", [&] { return mse_loss(x, no); }},
      {"embedding: operand 1", [&] { return embedding(no, index); }},
      {"embedding: operand 2", [&] { return embedding(x, no); }},
      {"gather: operand 2", [&] { return gather(x, 0, no); }},
      {"index_select: operand 2", [&] { return index_select(x, 0, no); }},
      {"scatter_add: operand 3", [&] { return scatter_add(x, 0, index, no); }},
      {"cat: operand 2",
       [&] {
         return cat({x, no});
       }},
      {"stack: operand 1",
       [&] {
         return stack({no, x});
       }},
      {"dropout: operand 1", [&] { return dropout(no, 0.5); }},
      {"masked_fill: operand 2", [&] { return masked_fill(x, no, 0); }},
      {"clamp: operand 1", [&] { return clamp(no, 0, 1); }},
      {"reshape: operand 1", [&] { return no.reshape(4); }},
      {"slice: operand 1", [&] { return no.slice(0, 0, 1); }},
      {"to: operand 1", [&] { return no.to(f64); }},
      {"copy_: operand 1", [&] { return zeros(2).copy_(no); }},
  };
  for (const auto& [named, call] : calls) {
    EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr(std::string(named) + " is an undefined tensor"))) << named;
  }
  EXPECT_THAT([] { zeros({2, -3}); }, ThrowsMessage<ShapeError>(HasSubstr("zeros: the size -3")));
  EXPECT_THAT([] { ones(-3); }, ThrowsMessage<ShapeError>(HasSubstr("ones: the size -3")));
  EXPECT_THAT([] { rand(-3); }, ThrowsMessage<ShapeError>(HasSubstr("rand: the size -3")));
  EXPECT_THAT([] { randn(-3); }, ThrowsMessage<ShapeError>(HasSubstr("randn: the size -3")));
}

}  // namespace
}  // namespace etna
