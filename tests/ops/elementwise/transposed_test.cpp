#include <cstring>

#include <ops/rows.h>

// Elementwise ops whose operands' neighbours in memory are not neighbours in the result; on a GPU,
// shaders/elementwise/elementwise_transposed.comp.
namespace etna {
namespace {

using namespace op_tests;

std::vector<std::uint8_t> ops_transposed_bytes(const Tensor& x) {
  const Tensor host = x.to(kCPU).contiguous();
  std::vector<std::uint8_t> out(static_cast<std::size_t>(host.numel()) * item_size(host.dtype()));
  if (!out.empty()) std::memcpy(out.data(), host.raw_data(), out.size());
  return out;
}

/// The values of x, with dimensions i and j swapped in memory.
Tensor turned(const Tensor& x, int i, int j) { return x.transpose(i, j).contiguous().transpose(i, j); }

const DType kDtypes[] = {f32, f16, bf16, i32, i8, boolean, i64};

TEST(Transposed, ACopyHasTheSameElements) {
  for (Device device : devices()) {
    for (const Shape& shape : {Shape{16, 16}, {15, 16}, {37, 41}, {64, 64}, {257, 263}, {1, 70}, {1031, 17}}) {
      for (DType t : kDtypes) {
        const Tensor x = random_tensor(shape, t);
        EXPECT_EQ(ops_transposed_bytes(copy(turned(x, 0, 1).to(device))), ops_transposed_bytes(x))
            << str(shape) << " " << name(t);
        EXPECT_EQ(ops_transposed_bytes(copy(x.to(device).t())), ops_transposed_bytes(x.t()))
            << str(shape) << " " << name(t);
      }
    }
  }
}

TEST(Transposed, MatricesMayLieWithinOtherDimensions) {
  const Tensor x = random_tensor({3, 33, 2, 35}, f32);
  for (Device device : devices()) {
    const Tensor there = x.to(device);
    for (const Dims& order : {Dims{0, 1, 3, 2}, {0, 3, 2, 1}, {3, 0, 1, 2}, {1, 2, 3, 0}, {2, 3, 0, 1}}) {
      EXPECT_EQ(ops_transposed_bytes(copy(there.permute(order))), ops_transposed_bytes(x.permute(order))) << str(order);
    }
    const Tensor cut = there.slice(1, 2, 31).slice(3, 1, 30);
    EXPECT_EQ(ops_transposed_bytes(copy(cut.transpose(1, 3))),
              ops_transposed_bytes(x.slice(1, 2, 31).slice(3, 1, 30).transpose(1, 3)));
  }
}

TEST(Transposed, ElementsMayLieNearEachOther) {
  for (Device device : devices()) {
    const Tensor x = random_tensor({2, 40, 37, 68}, f32, 9), there = x.to(device);
    for (std::int64_t step : {2, 3, 5}) {
      auto seldom = [&](const Tensor& t) { return t.slice(2, 0, 37, 2).slice(3, 1, 68, step).permute({0, 2, 3, 1}); };
      EXPECT_EQ(ops_transposed_bytes(copy(seldom(there))), ops_transposed_bytes(seldom(x))) << device.str() << step;
    }
  }
}

TEST(Transposed, AnyOperandMayBe) {
  const Shape shape{67, 71};
  for (Device device : devices()) {
    for (DType t : {f32, bf16, i32}) {
      const Tensor a = random_tensor(shape, t, 1).to(device), b = random_tensor(shape, t, 2).to(device);
      const Tensor row = random_tensor({71}, t, 3).to(device), column = random_tensor({67, 1}, t, 4).to(device);
      const Tensor at = turned(a, 0, 1), bt = turned(b, 0, 1);
      EXPECT_EQ(ops_transposed_bytes(a - bt), ops_transposed_bytes(a - b)) << name(t);
      EXPECT_EQ(ops_transposed_bytes(at - b), ops_transposed_bytes(a - b)) << name(t);
      EXPECT_EQ(ops_transposed_bytes(at - bt), ops_transposed_bytes(a - b)) << name(t);
      EXPECT_EQ(ops_transposed_bytes(at - row), ops_transposed_bytes(a - row)) << name(t);
      EXPECT_EQ(ops_transposed_bytes(at - column), ops_transposed_bytes(a - column)) << name(t);
      EXPECT_EQ(ops_transposed_bytes(at - 3.0), ops_transposed_bytes(a - 3.0)) << name(t);
      EXPECT_EQ(ops_transposed_bytes(3.0 - at), ops_transposed_bytes(3.0 - a)) << name(t);
      const Tensor mask = a > b;
      EXPECT_EQ(ops_transposed_bytes(where(turned(mask, 0, 1), a, bt)), ops_transposed_bytes(where(mask, a, b)))
          << name(t);
      EXPECT_EQ(ops_transposed_bytes(at.to(f16)), ops_transposed_bytes(a.to(f16))) << name(t);
    }
  }
}

TEST(Transposed, SoMayTheResult) {
  NoGrad off;
  for (Device device : devices()) {
    const Tensor x = random_tensor({40, 52}, f32, 1).to(device), y = random_tensor({52, 40}, f32, 2).to(device);
    Tensor into = y.clone();
    into.t().copy_(x);
    EXPECT_EQ(ops_transposed_bytes(into), ops_transposed_bytes(x.t()));
    into = y.clone();
    into.t().add_(x);
    EXPECT_EQ(ops_transposed_bytes(into), ops_transposed_bytes(y + x.t()));
    Tensor square = x.slice(1, 0, 40).clone();
    const Tensor before = square.clone();
    square.add_(square.t());
    EXPECT_EQ(ops_transposed_bytes(square), ops_transposed_bytes(before + before.t()));
  }
}

}  // namespace
}  // namespace etna
