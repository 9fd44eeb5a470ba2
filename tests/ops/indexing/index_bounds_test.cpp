#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

#include "ops/rows.h"

namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kLimit = 5;

/// An op that selects along a dimension of size kLimit by an index of three elements.
struct IndexBoundsCase {
  const char* op;  ///< as errors name it
  std::function<Tensor(const Tensor& index)> call;
  bool loss = false;  ///< the index is a target; -100 is ignored
};

std::vector<IndexBoundsCase> index_bounds_cases(Device device) {
  auto values = [&](Shape shape) { return op_tests::random_tensor(shape, f32).to(device); };
  const Tensor table = values({kLimit, 2}), rows = values({3, 2}), matrix = values({kLimit, 3}), line = values({1, 3}),
               cube = values({2, kLimit, 3}), logits = values({3, kLimit});
  return {
      {"embedding", [=](const Tensor& i) { return embedding(table, i); }},
      {"embedding_backward", [=](const Tensor& i) { return embedding_backward(rows, i, kLimit); }},
      {"index_add_",
       [=](const Tensor& i) {
         Tensor sums = table.clone();
         index_add_(sums, i, rows);
         return sums;
       }},
      {"index_select", [=](const Tensor& i) { return index_select(cube, 1, i); }},
      {"gather",
       [=](const Tensor& i) {
         return gather(matrix, 0, i.reshape({1, 3}));
       }},
      {"scatter_add",
       [=](const Tensor& i) {
         return scatter_add(matrix, 0, i.reshape({1, 3}), line);
       }},
      {"gather", [=](const Tensor& i) { return nll_loss(logits, i); }, true},
      {"cross_entropy", [=](const Tensor& i) { return cross_entropy(logits, i); }, true},
      {"linear_cross_entropy", [=](const Tensor& i) { return linear_cross_entropy(rows, table, i); }, true},
  };
}

Tensor index_of(std::int64_t second, DType dtype, Device device) {
  return from_vector(std::vector<std::int64_t>{0, second, kLimit - 1}).to(dtype).to(device);
}

/// Indices outside, some of whose lower 32 bits would be inside.
std::vector<std::int64_t> outside(DType dtype) {
  std::vector<std::int64_t> all = {-1, kLimit, 1000000, std::numeric_limits<std::int32_t>::min()};
  if (dtype == i64) {
    all.insert(all.end(), {(std::int64_t{1} << 32) + 1, -(std::int64_t{1} << 32),
                           std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()});
  }
  return all;
}

auto names(const std::string& op, std::int64_t index) {
  return ThrowsMessage<IndexError>(
      AllOf(HasSubstr(op + ": "), HasSubstr(" " + std::to_string(index) + " "), HasSubstr("is outside [0, 5)")));
}

TEST(IndexBounds, TheCpuThrowsAtTheCall) {
  for (const IndexBoundsCase& c : index_bounds_cases(kCPU)) {
    for (DType dtype : {i64, i32}) {
      c.call(index_of(0, dtype, kCPU));
      c.call(index_of(kLimit - 1, dtype, kCPU));
      for (std::int64_t bad : outside(dtype)) {
        EXPECT_THAT([&] { c.call(index_of(bad, dtype, kCPU)); }, names(c.op, bad));
      }
    }
    if (c.loss) c.call(index_of(-100, i64, kCPU));
  }
}

class IndexBoundsOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!op_tests::have_vulkan()) GTEST_SKIP() << "no Vulkan device";
  }
};

TEST_F(IndexBoundsOnGpu, EachOpThrowsAtTheNextWaitAndTheDeviceWorksOn) {
  const std::vector<IndexBoundsCase> on_cpu = index_bounds_cases(kCPU), on_gpu = index_bounds_cases(kVulkan);
  for (std::size_t k = 0; k < on_gpu.size(); ++k) {
    const IndexBoundsCase& c = on_gpu[k];
    SCOPED_TRACE(c.op);
    for (DType dtype : {i64, i32}) {
      for (std::int64_t bad : outside(dtype)) {
        const Tensor y = c.call(index_of(bad, dtype, kVulkan));
        EXPECT_THAT([&] { static_cast<void>(y.to(kCPU)); }, names(c.op, bad));
        c.call(index_of(bad, dtype, kVulkan));
        EXPECT_THAT([] { synchronize(kVulkan); },
                    ThrowsMessage<IndexError>(HasSubstr("at position 1 is outside [0, 5)")));
      }
      for (std::int64_t good : {std::int64_t{0}, kLimit - 1}) {
        op_tests::expect_close(c.call(index_of(good, dtype, kVulkan)),
                               on_cpu[k].call(index_of(good, dtype, kCPU)).to_vector<double>(), 1e-5, 1e-5);
      }
      synchronize(kVulkan);
    }
    if (c.loss) {
      EXPECT_NO_THROW(static_cast<void>(c.call(index_of(-100, i64, kVulkan)).to(kCPU)));
    }
  }
}

TEST_F(IndexBoundsOnGpu, EveryWayToWaitThrowsOnce) {
  const Tensor table = op_tests::random_tensor({kLimit, 2}, f32).to(kVulkan), bad = index_of(7, i64, kVulkan);
  const std::vector<std::function<void(const Tensor&)>> waits = {
      [](const Tensor& y) { y.item(); },
      [](const Tensor& y) { y.to_vector<float>(); },
      [](const Tensor& y) { static_cast<void>(y.to(kCPU)); },
      [](const Tensor& y) { read_later(y).get(); },
      [](const Tensor&) { synchronize(kVulkan); },
  };
  for (const auto& wait : waits) {
    const Tensor y = sum(embedding(table, bad));
    EXPECT_THAT([&] { wait(y); }, names("embedding", 7));
    EXPECT_NO_THROW(wait(y));
  }
}

TEST_F(IndexBoundsOnGpu, ACapturedStepThrowsAtEachReplayWithAWrongIndex) {
  for (const IndexBoundsCase& c : index_bounds_cases(kVulkan)) {
    SCOPED_TRACE(c.op);
    auto step = capture([&](const Tensor& index) { return sum(c.call(index)); }, {.device = kVulkan});
    const double want = step(index_of(2, i64, kVulkan)).item<double>();
    for (int run = 0; run < 2; ++run) {
      EXPECT_DOUBLE_EQ(step(index_of(2, i64, kVulkan)).item<double>(), want);
      for (int again = 0; again < 2; ++again) {
        Tensor y = step(index_of(-7, i64, kVulkan));
        EXPECT_THAT([&] { y.item(); }, names(c.op, -7));
      }
    }
    EXPECT_DOUBLE_EQ(step(index_of(2, i64, kVulkan)).item<double>(), want);
    EXPECT_GE(step.replays(), 6);
  }
}

TEST_F(IndexBoundsOnGpu, AGradientNamesTheForwardOpFirst) {
  Tensor table = op_tests::random_tensor({kLimit, 2}, f32).to(kVulkan).requires_grad_();
  sum(embedding(table, index_of(9, i64, kVulkan))).backward();
  EXPECT_THAT([&] { synchronize(kVulkan); }, names("embedding", 9));
  EXPECT_NO_THROW(synchronize(kVulkan));
}

TEST_F(IndexBoundsOnGpu, NeighbouringMemoryIsNeitherReadNorWritten) {
  const Tensor whole = full({3 * kLimit, 4}, 777, {f32, kVulkan});
  Tensor inner = whole.slice(0, kLimit, 2 * kLimit);
  inner.fill_(1);
  auto wait = [] { EXPECT_THROW(synchronize(kVulkan), IndexError); };
  for (std::int64_t bad : outside(i64)) {
    const Tensor index = index_of(bad, i64, kVulkan);
    const Tensor taken = index_select(inner, 0, index), rows = embedding(inner, index),
                 gathered = gather(inner, 0, index.reshape({3, 1}));
    wait();
    for (const Tensor& y : {taken, rows, gathered}) EXPECT_THAT(y.to_vector<float>(), ::testing::Each(1.0f));
    index_add_(inner, index, zeros({3, 4}, {f32, kVulkan}));
    index_add_(inner, index, ones({3, 4}, {f32, kVulkan}));
    wait();
    inner.fill_(1);
    const std::vector<float> all = whole.to_vector<float>();
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i >= 20 && i < 40 ? 1.0f : 777.0f) << i;
  }
}

TEST_F(IndexBoundsOnGpu, ALossOfSeveralChunksNamesTheRow) {
  const std::int64_t rows = 700;
  std::vector<std::int64_t> targets(static_cast<std::size_t>(rows), 1);
  targets[650] = 11;
  const Tensor target = from_vector(targets).to(kVulkan), x = op_tests::random_tensor({rows, 4}, f32).to(kVulkan);
  const Tensor weight = op_tests::random_tensor({kLimit, 4}, f32).to(kVulkan);
  EXPECT_THAT([&] { linear_cross_entropy(x, weight, target).item(); },
              ThrowsMessage<IndexError>(HasSubstr("linear_cross_entropy: index 11 at position 650 is outside [0, 5)")));
  EXPECT_THAT([&] { cross_entropy(linear(x, weight), target).item(); },
              ThrowsMessage<IndexError>(HasSubstr("cross_entropy: index 11 at position 650 is outside [0, 5)")));
}

}  // namespace
}  // namespace etna
