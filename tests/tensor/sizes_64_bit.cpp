#include <cstdint>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/nn/nn.h>
#include <etna/tensor/ops.h>

#include <nn/on_device.h>

// Sizes whose products overflow, or fit but exceed any memory.
namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t power(int of_two) { return std::int64_t{1} << of_two; }

class Sizes : public OnDevice {
 protected:
  static TensorOptions options(DType t = f32) { return {t, device()}; }
};
ETNA_ON_EVERY_DEVICE(Sizes);

auto refuses(const std::string& op, const std::string& what) {
  return ThrowsMessage<ShapeError>(AllOf(HasSubstr(op + ": "), HasSubstr(what), HasSubstr("63 bits")));
}

TEST_P(Sizes, RefusesElementsThatCannotBeCounted) {
  const Shape shapes[] = {{power(32), power(32)},
                          {power(62) + 1, 4},
                          {6148914691236517206, 3},
                          {kMost, 2},
                          {kMost, kMost},
                          {3, kMost, 5, 7},
                          {2, 4, power(20), power(20), power(21)}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(str(shape));
    EXPECT_THAT([&] { empty(shape, options()); }, refuses("empty", str(shape)));
    EXPECT_THAT([&] { zeros(shape, options(i8)); }, refuses("zeros", "number of elements of " + str(shape)));
    EXPECT_THAT([&] { ones(shape, options()); }, refuses("ones", str(shape)));
    EXPECT_THAT([&] { full(shape, 1, options()); }, refuses("full", str(shape)));
    EXPECT_THAT([&] { rand(shape, options()); }, refuses("rand", str(shape)));
    EXPECT_THAT([&] { randn(shape, options()); }, refuses("randn", str(shape)));
    EXPECT_THAT([&] { randint(0, 5, shape, options(i64)); }, refuses("randint", str(shape)));
    float value = 0;
    EXPECT_THAT([&] { from_bytes(&value, shape, f32, device()); }, refuses("from_bytes", str(shape)));
    EXPECT_THAT(
        [&] {
          from_vector(std::vector<float>{1, 2, 3, 4}, shape, device());
        },
        refuses("from_vector", str(shape)));
    EXPECT_THAT([&] { from_vector(std::vector<float>{}, shape, device()); }, refuses("from_vector", str(shape)));
  }
  Shape eight = Dims::filled(kMaxRank, 256);
  EXPECT_THAT([&] { zeros(eight, options()); }, refuses("zeros", str(eight)));
}

TEST_P(Sizes, RefusesBytesThatCannotBeCounted) {
  EXPECT_THAT([] { zeros({power(62)}, options()); }, refuses("zeros", "number of bytes of [4611686018427387904]"));
  EXPECT_THAT([] { zeros({power(61)}, options()); }, refuses("zeros", "4 an element"));
  EXPECT_THAT([] { zeros({power(62)}, options(f16)); }, refuses("zeros", "2 an element"));
  EXPECT_THAT([] { zeros({power(30), power(30)}, options(f64)); }, refuses("zeros", "8 an element"));
  EXPECT_THAT([] { rand({kMost}, options()); }, refuses("rand", "number of bytes"));
}

TEST_P(Sizes, AreOutOfMemoryWhereTheyFitNone) {
  const std::uint64_t before = memory_stats(device()).in_use;
  EXPECT_THROW(zeros({power(60)}, options()), OutOfMemory);
  EXPECT_THROW(zeros({power(61) - 1}, options()), OutOfMemory);
  EXPECT_THROW(zeros({power(61) - 1}, options(i8)), OutOfMemory);
  EXPECT_THROW(zeros({kMost}, options(i8)), OutOfMemory);
  EXPECT_THROW(zeros({kMost - 255}, options(i8)), OutOfMemory);
  EXPECT_THROW(empty({power(31), power(29)}, options()), OutOfMemory);
  EXPECT_THROW(ones({power(50)}, options()), OutOfMemory);
  EXPECT_THROW(rand({power(55)}, options()), OutOfMemory);
  for (int bits = 48; bits < 64; ++bits) {
    for (std::size_t less : {0, 1, 255, 4096}) {
      const std::size_t bytes = (std::size_t{1} << bits) - less;
      EXPECT_THAT([&] { allocate(device(), bytes); }, ThrowsMessage<OutOfMemory>(HasSubstr("no room"))) << bytes;
    }
  }
  EXPECT_THROW(allocate(device(), ~std::size_t{0}), OutOfMemory);
  EXPECT_EQ(memory_stats(device()).in_use, before);
  EXPECT_EQ(ones({3}, options()).to_vector<float>(), std::vector<float>(3, 1));
}

TEST_P(Sizes, OfNoElementsMayBeAny) {
  const Shape shapes[] = {{0, power(62), 8}, {power(62), 8, 0}, {power(62), 0, power(62)}, {kMost, kMost, 0, kMost}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(str(shape));
    Tensor x = zeros(shape, options());
    EXPECT_EQ(x.numel(), 0);
    EXPECT_TRUE(x.is_contiguous());
    for (std::int64_t stride : x.strides()) EXPECT_GE(stride, 0);
    EXPECT_EQ(rand(shape, options()).shape(), shape);
    EXPECT_EQ((x + x).shape(), shape);
    EXPECT_EQ((x * scalar(2, options())).shape(), shape);
    EXPECT_EQ(exp(x).clone().shape(), shape);
    EXPECT_EQ(softmax(x, 1).shape(), shape);
    EXPECT_EQ(cumsum(x, 0).shape(), shape);
    EXPECT_EQ(x.to(f16).shape(), shape);
    EXPECT_EQ(x.to(kCPU).shape(), shape);
    EXPECT_EQ(x.to_vector<float>().size(), 0u);
    EXPECT_EQ(x.sum().item<float>(), 0);
    EXPECT_EQ(prod(x).item<float>(), 1);
    EXPECT_EQ(x.t().t().shape(), shape);
    for (int d = 0; d < x.dim(); ++d) {
      Tensor part = x.slice(d, shape[d] / 2, shape[d], 3);
      EXPECT_EQ(part.numel(), 0);
      EXPECT_EQ((part + part).shape(), part.shape());
    }
    EXPECT_EQ(x.reshape({0}).shape(), Shape{0});
    EXPECT_EQ(x.flatten().shape(), Shape{0});
    EXPECT_EQ(x.reshape({0}).reshape(shape).shape(), shape);
    EXPECT_EQ(x.fill_(2).copy_(x).add_(x).shape(), shape);
    EXPECT_THAT(x.str(), HasSubstr("[]"));
  }
  EXPECT_EQ(zeros({0, 8, power(62)}, options()).expand({power(62), 0, 8, power(62)}).numel(), 0);
}

TEST_P(Sizes, AreNotNegative) {
  for (const Shape& shape :
       {Shape{-1}, Shape{0, -1}, Shape{-2, -3}, Shape{std::numeric_limits<std::int64_t>::min(), 2}}) {
    SCOPED_TRACE(str(shape));
    EXPECT_THAT([&] { zeros(shape, options()); }, ThrowsMessage<ShapeError>(HasSubstr("zeros: the size -")));
    EXPECT_THAT([&] { randn(shape, options()); }, ThrowsMessage<ShapeError>(HasSubstr("randn: the size -")));
    EXPECT_THROW(from_vector(std::vector<float>(6), shape, device()), ShapeError);
    EXPECT_THROW(ones({6}, options()).expand({-2, 6}), ShapeError);
  }
  EXPECT_THROW(ones({6}, options()).reshape({-2, -3}), ShapeError);
  EXPECT_THROW(ones({6}, options()).reshape({-1, -1}), ShapeError);
}

TEST_P(Sizes, OfViewsAreCounted) {
  Tensor x = ones({4}, options());
  for (const Shape& shape : {Shape{power(62), 4}, Shape{power(32), power(32), 4}, Shape{4, kMost, 4}})
    EXPECT_THAT(
        [&] {
          x.reshape(shape[0] == 4 ? Shape{4, 1, 1} : Shape{4}).expand(shape);
        },
        refuses("expand", str(shape)));
  EXPECT_THAT([&] { x.reshape({power(62), 8}); }, refuses("reshape", "[4611686018427387904, 8]"));
  EXPECT_THAT([&] { x.reshape({-1, power(62), 8}); }, refuses("reshape", "[4611686018427387904, 8]"));
  EXPECT_THAT([&] { x.view({power(62) + 1, 4}); }, refuses("view", "[4611686018427387905, 4]"));
  EXPECT_THROW(x.reshape({power(62), 2}), ShapeError);
  EXPECT_THROW(x.reshape({-1, power(62)}), ShapeError);
  EXPECT_THROW(x.reshape({power(62), 8, -1, 0}), ShapeError);
  EXPECT_THAT([&] { zeros({0, power(62), 8}, options()).flatten(1, 2); }, refuses("flatten", "4611686018427387904"));
}

TEST_P(Sizes, OfAViewMayBeMoreThanMemoryHolds) {
  Tensor x = ones({4}, options()).expand({power(40), 4});
  EXPECT_EQ(x.numel(), power(42));
  EXPECT_EQ(x.slice(0, power(39), power(39) + 2).to_vector<float>(), std::vector<float>(8, 1));
  EXPECT_EQ(x[power(40) - 1].sum().item<float>(), 4);
  EXPECT_EQ(x.slice(0, 0, power(40), power(38)).shape(), (Shape{4, 4}));
  const auto too_many = ThrowsMessage<ShapeError>(HasSubstr("2^31"));
  EXPECT_THAT([&] { x + x; }, too_many);
  EXPECT_THAT([&] { x.sum(); }, too_many);
  EXPECT_THAT([&] { x.sum({0}); }, too_many);
  EXPECT_THAT([&] { x.sum({1}); }, too_many);
  EXPECT_THAT([&] { x.contiguous(); }, too_many);
  EXPECT_THAT([&] { x.to_vector<float>(); }, too_many);
  EXPECT_THAT([&] { x.to(f16); }, too_many);
  EXPECT_THAT([&] { Tensor(x).fill_(1); }, ThrowsMessage<ShapeError>(HasSubstr("repeats its elements")));
  EXPECT_THAT([&] { softmax(x, -1); }, too_many);
  EXPECT_THAT([&] { x.reshape({-1, 8}).flatten(); }, too_many);
  EXPECT_THAT([&] { ones({1}, options()).expand({power(20), power(20)}).sum({1}); }, too_many);
  EXPECT_THAT([&] { matmul(ones({1, 3}, options()).expand({power(40), 3}), ones({3, 1}, options())); }, too_many);
  EXPECT_THAT([&] { ones({power(20), 1}, options()) + ones({power(20)}, options()); }, too_many);
  Tensor wide = ones({1}, options()).expand({kMost});
  EXPECT_EQ(wide.split(power(62)).size(), 2u);
  EXPECT_EQ(wide.chunk(3).size(), 3u);
  EXPECT_THAT([&] { cat({wide, wide}); }, ThrowsMessage<ShapeError>(HasSubstr("cat")));
  EXPECT_THROW(stack({wide, wide}), ShapeError);
  EXPECT_THROW(wide.unsqueeze(1) + wide, ShapeError);
}

TEST_P(Sizes, OfSlicesMayAskForMoreThanThereIs) {
  Tensor x = arange(0, 6).to(f32).to(device());
  EXPECT_EQ(x.slice(0, 1, kMost, kMost).to_vector<float>(), std::vector<float>{1});
  EXPECT_EQ(x.slice(0, 1, kMost, kMost).slice(0, 0, 1, kMost).to_vector<float>(), std::vector<float>{1});
  EXPECT_EQ(x.slice(0, -kMost, kMost, 4).to_vector<float>(), (std::vector<float>{0, 4}));
  EXPECT_EQ(x.slice(0, std::numeric_limits<std::int64_t>::min(), 2).to_vector<float>(), (std::vector<float>{0, 1}));
  EXPECT_EQ(x.slice(0, 6, kMost).numel(), 0);
  EXPECT_EQ(x.split(kMost).size(), 1u);
  EXPECT_EQ(x.chunk(kMost).size(), 6u);
  EXPECT_THROW(x.split(std::vector<std::int64_t>{2, kMost, 4}), ShapeError);
  EXPECT_THROW(x.select(0, kMost), ShapeError);
  EXPECT_THROW(x.select(0, -kMost), ShapeError);
}

TEST_P(Sizes, OfRangesAreCounted) {
  EXPECT_THAT([] { arange(0, 1e30, 1, options()); }, refuses("arange", "end 1e+30"));
  EXPECT_THAT([] { arange(-1e308, 1e308, 1, options()); }, refuses("arange", "step 1"));
  EXPECT_THAT([] { arange(0, 1, 1e-300, options()); }, refuses("arange", "step 1e-300"));
  EXPECT_THAT([] { arange(0, 0x1p61, 1, options(i64)); }, refuses("arange", "number of bytes"));
  EXPECT_THROW(arange(0, 0x1p59, 1, options(i64)), OutOfMemory);
  EXPECT_EQ(arange(0, -1e30, 1, options()).numel(), 0);
}

TEST_P(Sizes, OfAttentionAreCounted) {
  Tensor none = zeros({2, 0}, options());
  EXPECT_THAT([&] { self_attention(none, power(62), power(62)); }, refuses("self_attention", "4611686018427387904"));
  EXPECT_THAT([&] { self_attention(none, kMost, 1); }, refuses("self_attention", "sum"));
  EXPECT_THROW(self_attention(none, power(62), 1), ShapeError);
  EXPECT_THROW(self_attention(none, power(40), power(40)), ShapeError);
  EXPECT_THROW(self_attention(zeros({2, 6}, options()), power(61), 1), ShapeError);
  EXPECT_THROW(self_attention(none, -kMost, -kMost), ShapeError);
  EXPECT_THROW(self_attention(none, std::numeric_limits<std::int64_t>::min()), ShapeError);
  Tensor q = ones({1, 1, 1}, options()).expand({power(40), 2, 4});
  EXPECT_THROW(scaled_dot_product_attention(q, q, q), ShapeError);
  EXPECT_EQ(self_attention(zeros({2, 0}, options()), 2).shape(), (Shape{2, 0}));
}

TEST_P(Sizes, OfTablesAndIndicesAreCounted) {
  Tensor index = zeros({2}, options(i64));
  Tensor rows = ones({1, 1}, options()).expand({4, power(60)});
  EXPECT_THROW(embedding(rows, index), ShapeError);
  EXPECT_THROW(index_select(rows, 0, index), ShapeError);
  EXPECT_THROW(embedding_backward(ones({2, 4}, options()), index, kMost), ShapeError);
  EXPECT_THROW(embedding_backward(ones({2, 4}, options()), index, power(40)), ShapeError);
  EXPECT_EQ(index_select(zeros({0, power(62), 8}, options()), 0, zeros({0}, options(i64))).numel(), 0);
  Tensor x = ones({3}, options());
  x.requires_grad_();
  EXPECT_THROW(x.expand({power(50), 3}).sum().backward(), ShapeError);
  EXPECT_FALSE(x.grad().defined());
}

TEST(SizesOnTheHost, OfModulesAreCounted) {
  EXPECT_THAT([] { nn::Linear(power(32), power(32)); }, ThrowsMessage<ShapeError>(HasSubstr("63 bits")));
  EXPECT_THAT([] { nn::Linear(-1, 2); }, ThrowsMessage<ShapeError>(HasSubstr("negative")));
  EXPECT_THAT([] { nn::Embedding(power(62) + 1, 4); }, ThrowsMessage<ShapeError>(HasSubstr("63 bits")));
  EXPECT_THAT([] { nn::MultiheadAttention(kMost, 1); }, ThrowsMessage<ShapeError>(HasSubstr("63 bits")));
  EXPECT_THROW(nn::Linear(power(30), power(30)), OutOfMemory);
}

TEST(SizesOnTheHost, AreMultipliedAndAddedWithACheck) {
  EXPECT_EQ(numel({kMost}), kMost);
  EXPECT_EQ(numel({}), 1);
  EXPECT_EQ(numel({power(62), 8, 0}), 0);
  EXPECT_EQ(numel({0, power(62), 8}), 0);
  EXPECT_THAT([] { numel({power(62), 2}, "op"); }, refuses("op", "[4611686018427387904, 2]"));
  EXPECT_THAT([] { numel({0, -1}, "op"); }, ThrowsMessage<ShapeError>(HasSubstr("op: the size -1 in [0, -1]")));
  EXPECT_EQ(byte_size({power(60) - 1}, 8, "op"), static_cast<std::size_t>(8 * (power(60) - 1)));
  EXPECT_THAT([] { byte_size({power(60)}, 8, "op"); }, refuses("op", "[1152921504606846976], 8 an element"));
  EXPECT_EQ(byte_size({0, kMost}, 8, "op"), 0u);
  EXPECT_EQ(checked_product(power(31), power(31), "op"), power(62));
  EXPECT_THAT([] { checked_product(power(31), power(32), "op"); }, refuses("op", "2147483648 and 4294967296"));
  EXPECT_EQ(checked_sum(kMost, 0, "op"), kMost);
  EXPECT_THAT([] { checked_sum(kMost, 1, "op"); }, refuses("op", "and 1"));
  EXPECT_EQ(contiguous_strides({kMost, 1}), (Strides{1, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 3}), (Strides{3, 3, 1}));
  EXPECT_EQ(contiguous_strides({0, power(62), 8}), (Strides{0, 8, 1}));
}

TEST_P(Sizes, LeaveOtherTensorsAlone) {
  Tensor witness = full({64}, 7, options());
  for (const Shape& shape : {Shape{power(62) + 1, 4}, Shape{6148914691236517206, 3}, Shape{power(32), power(32)}}) {
    try {
      empty(shape, options()).slice(0, 0, 1024).fill_(1);
      FAIL() << str(shape) << " got memory";
    } catch (const ShapeError&) {}
  }
  EXPECT_EQ(witness.to_vector<float>(), std::vector<float>(64, 7));
}

}  // namespace
}  // namespace etna
