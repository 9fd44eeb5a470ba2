#include <etna/train/progress.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>

namespace etna::training {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

/// A progress with a clock of its own, and what it writes.
struct Screen {
  std::FILE* file = std::tmpfile();
  double seconds = 100;
  ~Screen() { std::fclose(file); }

  ProgressOptions options(bool terminal) {
    return {.items_per_step = 1000, .out = file, .terminal = terminal, .clock = [this] { return seconds; }};
  }
  std::string text() const {
    std::string all(static_cast<std::size_t>(std::ftell(file)), ' ');
    std::rewind(file);
    EXPECT_EQ(std::fread(all.data(), 1, all.size(), file), all.size());
    return all;
  }
};

TEST(Progress, LinesTellLossSpeedAndTime) {
  Screen screen;
  {
    Progress progress(100, screen.options(false));
    screen.seconds += 20;  // compiles kernels
    for (std::int64_t step = 1; step <= 100; ++step, screen.seconds += 0.5) progress.update(step, {{"loss", 4.25}});
  }
  const std::string text = screen.text();
  EXPECT_THAT(text, HasSubstr("train   1/100  loss 4.2500\n")) << "no remaining time from a warm-up";
  EXPECT_THAT(text, HasSubstr("train   6/100  loss 4.2500  2,000 tokens/s  0:47 left\n"));
  EXPECT_THAT(text, EndsWith("train 100/100  loss 4.2500  2,000 tokens/s\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 21);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(Progress, ABarStaysOnOneLine) {
  Screen screen;
  {
    Progress progress(4, screen.options(true));
    for (std::int64_t step = 1; step <= 2; ++step, screen.seconds += 1) progress.update(step, {{"loss", 1e-7}});
    progress.message("saved");
  }
  const std::string text = screen.text();
  EXPECT_THAT(text, HasSubstr("train █████                 25 %  1/4  loss 1e-07"));
  EXPECT_THAT(text, HasSubstr("\r\x1b[Ksaved\n\rtrain ██████████            50 %"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(Progress, PausesDoNotSlowTheRate) {
  Screen screen;
  ProgressOptions options = screen.options(false);
  options.pause_every = 50;
  Progress progress(200, options);
  for (std::int64_t step = 1; step <= 50; ++step, screen.seconds += 1) progress.update(step, {});
  progress.pause();
  screen.seconds += 30;
  progress.resume();
  progress.update(51, {});
  EXPECT_DOUBLE_EQ(progress.rate(), 1);
  EXPECT_DOUBLE_EQ(progress.seconds_left(), 149 + 3 * 30);
}

TEST(Progress, AResumedRunCountsItsOwnSteps) {
  Screen screen;
  ProgressOptions options = screen.options(false);
  options.first = 1000;
  Progress progress(1010, options);
  EXPECT_LT(progress.seconds_left(), 0) << "not known yet";
  for (std::int64_t step = 1001; step <= 1005; ++step, screen.seconds += 2) progress.update(step, {});
  EXPECT_DOUBLE_EQ(progress.seconds_left(), 10);
  EXPECT_THROW(Progress(3, options), Error);
}

TEST(Progress, NumbersAreReadable) {
  EXPECT_EQ(with_commas(12345678), "12,345,678");
  EXPECT_EQ(with_commas(-1234), "-1,234");
  EXPECT_EQ(clock_text(7.4), "0:07");
  EXPECT_EQ(clock_text(723), "12:03");
  EXPECT_EQ(clock_text(10975), "3:02:55");
}

}  // namespace
}  // namespace etna::training
