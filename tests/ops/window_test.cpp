#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/transfers.h>
#include <etna/device/kernel.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/device/vulkan/diagnostics.h>

#include "ops/rows.h"

namespace etna {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::function<std::int64_t()> at(std::int64_t start) {
  return [start] { return start; };
}

TEST(Window, GivesWhatASliceGives) {
  for (Device device : testing::devices()) {
    for (DType t : {f32, f16, bf16, i64, i32, u8}) {
      Tensor x = testing::random_tensor({7, 31}, t);
      Tensor on_device = x.to(device);
      for (std::int64_t start : {0, 1, 2, 13, 20}) {
        EXPECT_EQ(window(on_device, at(start), 11).to_vector<double>(),
                  x.slice(1, start, start + 11).to_vector<double>())
            << device.str() << " " << name(t) << " from " << start;
      }
    }
  }
}

TEST(Window, KeepsTheBitsOfNaNs) {
  const std::vector<std::uint32_t> bits = {0x7fc00001, 0x7f800001, 0xffc12345, 0x80000000};
  for (Device device : testing::devices()) {
    Tensor x = from_bytes(bits.data(), {1, 4}, f32, device), y = window(x, at(1), 3).to(kCPU);
    EXPECT_EQ(std::memcmp(std::as_const(y).raw_data(), bits.data() + 1, 12), 0) << device.str();
  }
}

TEST(Window, RefusesWhatLiesOutside) {
  for (Device device : testing::devices()) {
    Tensor x = zeros({3, 12}, {i32, device});
    for (std::int64_t start : {-1, 8, 13}) {
      EXPECT_THAT([&] { window(x, at(start), 5); },
                  ThrowsMessage<ShapeError>(AllOf(HasSubstr("5 columns from " + std::to_string(start)),
                                                  HasSubstr("[3, 12]"), HasSubstr("[0, 7]"))));
    }
    for (std::int64_t length : {-2, 0, 13}) {
      EXPECT_THAT([&] { window(x, at(0), length); },
                  ThrowsMessage<ShapeError>(HasSubstr(std::to_string(length) + " is outside [1, 12]")));
    }
    EXPECT_THAT(
        [&] {
          window(zeros({3, 0}, {i32, device}), at(0), 1);
        },
        ThrowsMessage<ShapeError>(HasSubstr("outside [1, 0]")));
    EXPECT_THAT(
        [&] {
          window(zeros({12}, {i32, device}), at(0), 5);
        },
        ThrowsMessage<ShapeError>(HasSubstr("x is [12], it must be a matrix")));
  }
}

TEST(Window, AsksForItsStartAtEveryReplay) {
  for (Device device : testing::devices()) {
    Tensor x = arange(0, 40, 1, {i32}).reshape({2, 20}).to(device);
    std::int64_t start = 0, asked = 0;
    auto from = [&] { return ++asked, start; };
    auto step = capture([&] { return window(x, from, 3); }, {.device = device});
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

TEST(Window, AReplayOutsideFailsBeforeAnythingRuns) {
  for (Device device : testing::devices()) {
    Tensor x = arange(0, 12, 1, {i32}).reshape({1, 12}).to(device), count = zeros({}, {i32, device});
    std::int64_t start = 0;
    auto from = [&] { return start; };
    auto step = capture(
        [&](const Tensor& added) {
          count.add_(added);
          return window(x, from, 2);
        },
        {.device = device});
    Tensor one = ones({}, {i32}), y;
    for (int i = 0; i < 3; ++i) y = step(one);
    if (device.is_vulkan()) synchronize(device);
    const auto before = device.is_vulkan() ? vulkan::recorder_stats(device) : vulkan::RecorderStats();
    const Transfers moved = transfers();
    start = 11;
    EXPECT_THAT([&] { step(one); }, ThrowsMessage<ShapeError>(HasSubstr("2 columns from 11")));
    if (device.is_vulkan()) {
      synchronize(device);
      EXPECT_EQ(vulkan::recorder_stats(device).submits, before.submits);
      EXPECT_EQ(vulkan::recorder_stats(device).dispatches, before.dispatches);
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

TEST(Window, WhatItsStartComputesIsNoPartOfTheStep) {
  for (Device device : testing::devices()) {
    Tensor x = arange(0, 10, 1, {i32}).reshape({1, 10}).to(device);
    std::int64_t number = 0;
    auto from = [&] { return full({}, static_cast<double>(++number), {i32}).item<std::int64_t>(); };
    auto step = capture([&] { return window(x, from, 2); }, {.device = device});
    for (int i = 1; i < 6; ++i) EXPECT_EQ(step().to_vector<int>(), (std::vector<int>{i, i + 1})) << device.str();
  }
}

TEST(Window, HasNoGradient) {
  Tensor x = ones({2, 5}).requires_grad_();
  EXPECT_FALSE(window(x, at(1), 3).requires_grad());
}

}  // namespace
}  // namespace etna
