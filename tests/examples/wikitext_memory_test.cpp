#include <regex>
#include <string>

#include <gmock/gmock.h>

#include "wikitext_command.h"

/// The forecast of memory, recomputed activations, and the picture of a step.
namespace wikitext_command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// MiB after these words.
double mebibytes(const std::string& text, const std::string& words) {
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(words + " ([0-9.]+) MiB"))) return -1;
  return std::stod(found[1]);
}

TEST_F(Wikitext, ForecastsItsMemory) {
  for (const char* model : {"--model transformer", "--model lstm --seq-spread 8"}) {
    const Outcome outcome =
        wikitext(std::string("train --device cpu --preset demo --steps 50 --no-eval --batch 32 ") + model);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    const double forecast = mebibytes(outcome.text, "memory: about"), seen = mebibytes(outcome.text, "memory: at most");
    EXPECT_NEAR(forecast, seen, 0.15 * seen) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("are free, enough for batches of"));
  }
}

TEST_F(Wikitext, WarnsOfABatchThatIsTooLarge) {
  const Outcome outcome =
      wikitext("train --device cpu --preset demo --steps 2 --no-eval --batch 400", "ETNA_MEMORY_LIMIT=200000000");
  EXPECT_THAT(outcome.text, HasSubstr("warning: batches of 400 need more memory than there is; try --batch "));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(outcome.text, found, std::regex("try --batch ([0-9]+)"))) << outcome.text;
  const Outcome fits = wikitext("train --device cpu --preset demo --steps 2 --no-eval --batch " + found[1].str(),
                                "ETNA_MEMORY_LIMIT=200000000");
  EXPECT_EQ(fits.code, 0) << fits.text;
  EXPECT_THAT(fits.text, Not(HasSubstr("warning")));
}

TEST_F(Wikitext, ForecastsNothingIfNotWanted) {
  const Outcome outcome = wikitext("train --device cpu --preset demo --steps 2 --no-eval --no-forecast");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(mebibytes(outcome.text, "memory: about"), -1);
}

TEST_F(Wikitext, RecomputedBlocksTakeLessMemory) {
  const std::string command = "train --device cpu --preset demo --layers 6 --batch 32 --steps 3 --no-eval --recompute ";
  const Outcome kept = wikitext(command + "none"), recomputed = wikitext(command + "blocks");
  EXPECT_EQ(recomputed.code, 0) << recomputed.text;
  EXPECT_LT(mebibytes(recomputed.text, "memory: at most"), 0.8 * mebibytes(kept.text, "memory: at most"));
  const Outcome lstm = wikitext("train --device cpu --preset demo --model lstm --recompute blocks");
  EXPECT_EQ(lstm.code, 2) << lstm.text;
  EXPECT_THAT(error_line(lstm), HasSubstr("recompute does not go with model = \"lstm\""));
}

TEST_F(Wikitext, TheReportHasAPictureOfTwoSteps) {
  const Outcome outcome = wikitext("train --device cpu --preset demo --steps 12 --out " + at("run"));
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(read(at("run") + "/report.html"), HasSubstr("<h2>Profile</h2>"));
}

}  // namespace
}  // namespace wikitext_command
