#include <algorithm>
#include <chrono>

#include "training.h"

namespace etna {
namespace {

class ReadLater : public OnDevice {};
ETNA_ON_BOTH_DEVICES(ReadLater);

TEST_P(ReadLater, GivesTheValueOfItsMoment) {
  Tensor x = full({}, 1.5, {f32, device()});
  PendingValue before = read_later(x);
  x.fill_(7);
  PendingValue after = read_later(x);
  EXPECT_EQ(before.get(), 1.5);
  EXPECT_EQ(after.get(), 7.0);
  EXPECT_EQ(before.get(), 1.5);
  EXPECT_TRUE(before.ready());
}

TEST_P(ReadLater, IsReadyOnceItsWorkIsDone) {
  PendingValue value = read_later(full({}, 2.0, {f32, device()}));
  synchronize(device());
  EXPECT_TRUE(value.ready());
  EXPECT_EQ(value.get(), 2.0);
  EXPECT_FALSE(PendingValue().defined());
}

TEST_P(ReadLater, TakesEveryDtype) {
  for (DType t : {f32, f16, bf16, i32, i64, u8, i8}) {
    EXPECT_EQ(read_later(full({1}, 3.0, {t, device()})).get(), 3.0) << name(t);
  }
  EXPECT_EQ(read_later(full({}, 1.0, {boolean, device()})).get(), 1.0);
  EXPECT_EQ(read_later(arange(0, 10, 1, {f32, device()}).select(0, 6)).get(), 6.0);
}

TEST_P(ReadLater, ManyMayBeOnTheirWay) {
  std::vector<PendingValue> values;
  Tensor x = zeros({}, {f32, device()});
  for (int i = 0; i < 200; ++i) {
    x.fill_(i);
    values.push_back(read_later(x));
  }
  for (int i = 199; i >= 0; --i) EXPECT_EQ(values[static_cast<std::size_t>(i)].get(), i);
}

TEST_P(ReadLater, BringsAllElementsTogether) {
  Tensor x = arange(0, 12, 1, {i32, device()}).reshape({3, 4});
  const auto submits = [&] { return device().is_cpu() ? 0 : gpu::queue_stats(device()).submits; };
  const Transfers before = transfers();
  synchronize(device());
  const auto submitted = submits();
  const std::vector<PendingValue> rows = read_each_later(x), columns = read_each_later(x.transpose(0, 1));
  x.fill_(-1);
  ASSERT_EQ(rows.size(), 12u);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(rows[static_cast<std::size_t>(i)].get(), i);
    EXPECT_EQ(columns[static_cast<std::size_t>(i)].get(), i % 3 * 4 + i / 3);
  }
  EXPECT_EQ(transfers().d2h_bytes - before.d2h_bytes, device().is_cpu() ? 0u : 96u);
  EXPECT_LE(submits() - submitted, 1u);
  EXPECT_TRUE(read_each_later(zeros({0, 3}, {f32, device()})).empty());
}

TEST_P(ReadLater, BringsMoreThanOneTransferHolds) {
  for (DType t : {i64, f16, u8}) {
    const Tensor x = arange(0, 5000, 1, {i64, device()}).remainder(100).to(t);
    const std::vector<PendingValue> values = read_each_later(x);
    ASSERT_EQ(values.size(), 5000u);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i].get(), static_cast<double>(i % 100)) << i;
  }
}

TEST_P(ReadLater, CountsAsATransferAndWantsOneElement) {
  Transfers before = transfers();
  Tensor x = ones({2}, {f32, device()});
  EXPECT_THROW(read_later(x), ShapeError);
  read_later(x.select(0, 0)).get();
  EXPECT_EQ(transfers().d2h_bytes - before.d2h_bytes, device().is_cpu() ? 0u : 4u);
}

TEST_P(ReadLater, ArrivesBeforeAReplayBehindItEnds) {
  if (device().is_cpu()) return;
  const Tensor w = randn({96, 96}, {f32, device()}) * 0.1;
  auto step = capture([&](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 60; ++i) y = matmul(y, w);  // longer than a transfer, on a fast GPU too
    return y;
  });
  const Tensor x = randn({96, 96}, {f32, device()});
  for (int i = 0; i < 3; ++i) step(x);
  synchronize(device());
  double least = 1;  // of the time until the value is there, as a part of the time until all is done
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    const PendingValue value = read_later(full({}, i, {f32, device()}));
    step(x);
    EXPECT_EQ(value.get(), i);
    const double arrived = seconds();
    synchronize(device());
    least = std::min(least, arrived / seconds());
  }
  EXPECT_LT(least, 0.5);
}

TEST_P(ReadLater, FollowsALossThroughReplays) {
  Training t(device()), plain(device());
  auto step = capture([&](const Tensor& x, const Tensor& y) { return t.step(x, y); }, {.device = device()});
  std::vector<PendingValue> later;
  std::vector<double> now;
  for (std::int64_t i = 0; i < 6; ++i) {
    auto [x, y] = Training::batch(i);
    manual_seed(static_cast<std::uint64_t>(i));
    later.push_back(read_later(step(x, y)));
    manual_seed(static_cast<std::uint64_t>(i));
    now.push_back(plain.step(x.to(device()), y.to(device())).item<double>());
  }
  for (std::size_t i = 0; i < now.size(); ++i) EXPECT_EQ(later[i].get(), now[i]) << i;
}

}  // namespace
}  // namespace etna
