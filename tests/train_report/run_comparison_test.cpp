#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <data/temporary_folder.h>
#include <etna/device/profile/profile.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/runs.h>

namespace etna::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RunSummary run_of(double ms, double last_loss) {
  RunSummary run;
  run.precision = "f32";
  run.losses = {{.step = 1, .loss = 7}, {.step = 10, .loss = last_loss}};
  run.ms_per_step_median = ms;
  run.steps = 10;
  run.tokens_per_step = 100;
  run.steps_per_epoch = 1000;
  return run;
}

TEST(RunComparison, SaysWhichIsFastestAndWhetherLossesAgree) {
  const TemporaryFolder folder;
  RunPair slow{run_of(40, 2), run_of(20, 2)}, fast{run_of(10, 2.01), run_of(5, 2)};
  fast.amdahl = "matrix products 50.0 %";
  ::testing::internal::CaptureStdout();
  EXPECT_TRUE(report_comparison({slow, fast}, "a title", folder / "table.svg", folder / "all.json"));
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("\na title\ndevice "), HasSubstr("4.00x"), HasSubstr("cpu f32: matrix products 50.0 %\n"),
                    HasSubstr("* extrapolated from 10 steps to the 1000 of an epoch"),
                    HasSubstr("conclusion: cpu in f32 trains an epoch in 5.00 s, 4.0 times as fast as"),
                    HasSubstr("losses differ by at most 0.500 %")));
  EXPECT_THAT(read_bytes(folder / "table.svg"), HasSubstr(">op by op<"));
  const auto json = nlohmann::json::parse(read_bytes(folder / "all.json"));
  ASSERT_EQ(json.size(), 4u);
  EXPECT_NEAR(json[2]["loss_difference"].get<double>(), 0.005, 1e-9);
  EXPECT_EQ(json[3]["amdahl"], fast.amdahl);
  EXPECT_FALSE(report_comparison({slow, {run_of(10, 2), run_of(5, 2.1)}}, "", {}, {}));
}

TEST(RunComparison, ReadsTheSameLossesOfLongerRuns) {
  const auto few = comparable_reads(40, 40), many = comparable_reads(40, 400);
  for (std::int64_t step = 1; step < 40; ++step) EXPECT_EQ(few(step), many(step)) << step;
  EXPECT_TRUE(few(40));
  EXPECT_FALSE(many(50));
  EXPECT_TRUE(many(60));
}

TEST(Amdahl, SaysWhatFasterProductsWouldBring) {
  profile::Summary summary;
  EXPECT_EQ(amdahl_line(summary), "");
  summary.steps = 2;
  summary.wall_ns = 4'000'000;
  summary.product_ns = 3'000'000;
  summary.ops_ns = 3'600'000;
  EXPECT_THAT(amdahl_line(summary),
              AllOf(HasSubstr("matrix products 75.0 %"), HasSubstr("between ops 10.0 %"),
                    HasSubstr("without the products a step would still take 0.50 ms: no more than 4.0 x")));
}

}  // namespace
}  // namespace etna::training
