#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/kernel.h>
#include <etna/device/memory.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

#include "ops/rows.h"

namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor at(std::int64_t start, Device device, DType t = i64) { return scalar(static_cast<double>(start), {t, device}); }

TEST(DynamicSlice, GivesWhatASliceGives) {
  for (Device device : op_tests::devices()) {
    for (DType t : {f32, f16, bf16, i64, i32, u8}) {
      Tensor x = op_tests::random_tensor({7, 31}, t);
      Tensor on_device = x.to(device);
      for (std::int64_t start : {0, 1, 2, 13, 20}) {
        EXPECT_EQ(dynamic_slice(on_device, 1, at(start, device), 11).to_vector<double>(),
                  x.slice(1, start, start + 11).to_vector<double>())
            << device.str() << " " << name(t) << " from " << start;
      }
    }
  }
}

TEST(DynamicSlice, KeepsTheBitsOfNaNs) {
  const std::vector<std::uint32_t> bits = {0x7fc00001, 0x7f800001, 0xffc12345, 0x80000000};
  for (Device device : op_tests::devices()) {
    Tensor x = from_bytes(bits.data(), {1, 4}, f32, device), y = dynamic_slice(x, 1, at(1, device), 3).to(kCPU);
    EXPECT_EQ(std::memcmp(y.raw_data(), bits.data() + 1, 12), 0) << device.str();
    Tensor z = dynamic_update_slice(x, x.slice(1, 2, 4), 1, at(0, device)).to(kCPU);
    const std::vector<std::uint32_t> wanted = {0xffc12345, 0x80000000, 0xffc12345, 0x80000000};
    EXPECT_EQ(std::memcmp(z.raw_data(), wanted.data(), 16), 0) << device.str();
  }
}

TEST(DynamicSlice, AStartOutsideIsAnErrorOnTheCPUAndClampedOnAGPU) {
  for (Device device : op_tests::devices()) {
    Tensor x = arange(0, 24, 1, {i32}).reshape({2, 12}).to(device), five = zeros({2, 5}, {i32, device});
    for (std::int64_t start : {std::int64_t{-1}, std::int64_t{8}, std::int64_t{1} << 40, -(std::int64_t{1} << 40)}) {
      if (device.is_cpu()) {
        EXPECT_THAT([&] { dynamic_slice(x, 1, at(start, device), 5); },
                    ThrowsMessage<ShapeError>(
                        AllOf(HasSubstr("from " + std::to_string(start)), HasSubstr("[2, 12]"), HasSubstr("[0, 7]"))));
        EXPECT_THAT([&] { dynamic_update_slice(x, five, 1, at(start, device)); },
                    ThrowsMessage<ShapeError>(HasSubstr("[0, 7]")));
      } else {
        const int first = start < 0 ? 0 : 7;
        EXPECT_EQ(dynamic_slice(x, 1, at(start, device), 5).select(1, 0).to_vector<int>(),
                  (std::vector<int>{first, first + 12}));
      }
    }
  }
}

TEST(DynamicSlice, RefusesWhatDoesNotFit) {
  for (Device device : op_tests::devices()) {
    Tensor x = zeros({3, 12}, {i32, device}), start = at(0, device);
    for (std::int64_t length : {-2, 13}) {
      EXPECT_THAT([&] { dynamic_slice(x, 1, start, length); },
                  ThrowsMessage<ShapeError>(HasSubstr(std::to_string(length) + " is outside [0, 12]")));
    }
    EXPECT_THAT(
        [&] {
          dynamic_slice(x, 1, zeros({1}, {i64, device}), 2);
        },
        ThrowsMessage<ShapeError>(HasSubstr("0-d")));
    EXPECT_THAT([&] { dynamic_slice(x, 1, zeros({}, {f32, device}), 2); }, ThrowsMessage<DtypeError>(HasSubstr("i64")));
    EXPECT_THROW(dynamic_slice(zeros({}, {i32, device}), 0, start, 1), ShapeError);
    EXPECT_THAT(
        [&] {
          dynamic_update_slice(x, zeros({2, 5}, {i32, device}), 1, start);
        },
        ThrowsMessage<ShapeError>(AllOf(HasSubstr("[2, 5]"), HasSubstr("[3, 12]"))));
    EXPECT_THROW(dynamic_update_slice(x, zeros({3, 13}, {i32, device}), 1, start), ShapeError);
    EXPECT_THROW(dynamic_update_slice(x, zeros({3}, {i32, device}), 1, start), ShapeError);
    EXPECT_THAT(
        [&] {
          dynamic_update_slice(x, zeros({3, 5}, {f32, device}), 1, start);
        },
        ThrowsMessage<DtypeError>(AllOf(HasSubstr("f32"), HasSubstr("i32"))));
  }
}

TEST(DynamicSlice, ReadsItsStartAtEveryReplay) {
  for (Device device : op_tests::devices()) {
    Tensor x = arange(0, 40, 1, {i32}).reshape({2, 20}).to(device);
    std::int64_t start = 0, asked = 0;
    auto step = capture(
        [&] {
          Tensor from = each_step([&] { return ++asked, static_cast<double>(start); }, {i64, device});
          return dynamic_slice(x, 1, from, 3);
        },
        {.device = device});
    for (std::int64_t now : {4, 0, 17, 9, 1}) {
      start = now;
      const auto first = static_cast<int>(now);
      EXPECT_EQ(step().to_vector<int>(),
                (std::vector<int>{first, first + 1, first + 2, first + 20, first + 21, first + 22}))
          << device.str();
    }
    EXPECT_EQ(asked, 5);
    EXPECT_EQ(step.replays(), 3);
  }
}

TEST(DynamicSlice, AStartComputedOnTheDeviceMovesOnByItself) {
  for (Device device : op_tests::devices()) {
    Tensor x = arange(0, 20, 1, {i32}).reshape({1, 20}).to(device), position = zeros({}, {i64, device});
    auto step = capture(
        [&] {
          Tensor y = dynamic_slice(x, 1, position, 2);
          position.add_(scalar(3, {i64, device}));
          return y;
        },
        {.device = device});
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(step().to_vector<int>(), (std::vector<int>{3 * i, 3 * i + 1})) << device.str();
  }
}

TEST(DynamicSlice, AHostNumberThatThrowsFailsBeforeAnythingRuns) {
  for (Device device : op_tests::devices()) {
    Tensor x = arange(0, 12, 1, {i32}).reshape({1, 12}).to(device), count = zeros({}, {i32, device});
    std::int64_t start = 0;
    auto from = [&] {
      if (start > 10) throw ShapeError("2 columns from 11");
      return static_cast<double>(start);
    };
    auto step = capture(
        [&](const Tensor& added) {
          count.add_(added);
          return dynamic_slice(x, 1, each_step(from, {i64, device}), 2);
        },
        {.device = device});
    Tensor one = ones({}, {i32}), y;
    for (int i = 0; i < 3; ++i) y = step(one);
    if (device.is_vulkan()) synchronize(device);
    const auto before = device.is_vulkan() ? gpu::queue_stats(device) : gpu::QueueStats();
    const Transfers moved = transfers();
    start = 11;
    EXPECT_THAT([&] { step(one); }, ThrowsMessage<ShapeError>(HasSubstr("2 columns from 11")));
    if (device.is_vulkan()) {
      synchronize(device);
      EXPECT_EQ(gpu::queue_stats(device).submits, before.submits);
      EXPECT_EQ(gpu::queue_stats(device).dispatches, before.dispatches);
    }
    EXPECT_EQ(transfers().h2d_bytes, moved.h2d_bytes);
    EXPECT_EQ(count.item<int>(), 3);
    EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{0, 1}));
    start = 10;
    EXPECT_EQ(step(one).to_vector<int>(), (std::vector<int>{10, 11}));
    EXPECT_EQ(count.item<int>(), 4);
    EXPECT_EQ(step.captures(), 1);
  }
}

TEST(DynamicSlice, WhatTheHostComputesForItsStartIsNoPartOfTheStep) {
  for (Device device : op_tests::devices()) {
    Tensor x = arange(0, 10, 1, {i32}).reshape({1, 10}).to(device);
    std::int64_t number = 0;
    auto from = [&] { return full({}, static_cast<double>(++number), {i32}).item<double>(); };
    auto step = capture([&] { return dynamic_slice(x, 1, each_step(from, {i64, device}), 2); }, {.device = device});
    for (int i = 1; i < 6; ++i) EXPECT_EQ(step().to_vector<int>(), (std::vector<int>{i, i + 1})) << device.str();
  }
}

TEST(EachStep, NumbersOfEveryDtypeReachTheDevice) {
  for (Device device : op_tests::devices()) {
    for (DType t : {f32, f16, bf16, i64, i32, i8, u8}) {
      double n = 2;
      auto step = capture(
          [&] {
            return each_step([&] { return n += 1; }, {t, device}).to(f32) * 2.0;
          },
          {.device = device});
      for (int i = 3; i < 8; ++i) EXPECT_EQ(step().item<double>(), 2.0 * i) << device.str() << " " << name(t);
    }
  }
}

TEST(EachStep, ANumberThatIsHeldOutlivesItsStep) {
  for (Device device : op_tests::devices()) {
    Tensor held;
    double n = 0;
    {
      auto step = capture(
          [&] {
            return held = each_step([&] { return ++n; }, {f32, device}), held + 1.0;
          },
          {.device = device});
      for (int i = 0; i < 4; ++i) step();
      EXPECT_EQ(held.item<double>(), 4) << device.str();
    }
    EXPECT_EQ(held.item<double>(), 4) << device.str();
  }
}

}  // namespace
}  // namespace etna
