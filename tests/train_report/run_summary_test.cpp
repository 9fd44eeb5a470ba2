#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/train/internal/summary_numbers.h>
#include <etna/train/runs.h>

namespace etna::training {
namespace {

using ::testing::HasSubstr;

RunSummary sample() {
  RunSummary run;
  run.command = "test train";
  run.losses = {{.step = 1, .loss = 7}, {.step = 10, .loss = 2.5}};
  run.epoch_loss = {4.5};
  run.seconds = 2;
  run.ms_per_step_median = 190;
  run.steps = 10;
  run.tokens_per_step = 100;
  run.steps_per_epoch = 10;
  run.host_peak = 1 << 20;
  run.valid_perplexity = 20.125;
  return run;
}

TEST(RunSummary, IsWrittenAsJson) {
  const auto json = nlohmann::json::parse(json_text(sample()));
  EXPECT_EQ(json["command"], "test train");
  EXPECT_TRUE(json["steps"].is_number_integer());
  EXPECT_EQ(json["tokens"], 1000);
  EXPECT_EQ(json["tokens_per_second"], 500);
  EXPECT_NEAR(json["epoch_seconds"].get<double>(), 1.9, 1e-9);
  EXPECT_EQ(json["epoch_extrapolated"], true);
  EXPECT_EQ(json["peak_bytes"]["host"], 1 << 20);
  EXPECT_EQ(json["valid_perplexity"], 20.125);
  EXPECT_TRUE(json["test_perplexity"].is_null());
  EXPECT_FALSE(json.contains("valid_word_perplexity"));
  EXPECT_EQ(json["loss"][1]["step"], 10);
}

TEST(RunSummary, IsPrinted) {
  EXPECT_THAT(sample().str(), HasSubstr("trained 10 steps in 2.0 s: 500 tokens/s, 190.00 ms a step (median)"));
  EXPECT_THAT(sample().str(), HasSubstr("\nepoch 1: mean training loss 4.5000\n"));
  EXPECT_THAT(RunSummary().str(), HasSubstr("trained 0 steps in 0.0 s: 0 tokens/s, 0.00 ms a step (median)"));
}

TEST(RunSummary, PerplexitiesOfWordsFollowThoseOfTokens) {
  RunSummary run = sample();
  run.test_perplexity = 19;
  EXPECT_EQ(run.perplexities(), "validation 20.12, test 19.00");
  run.valid_word_perplexity = 80.12;
  run.test_word_perplexity = 75;
  EXPECT_EQ(run.perplexities(), "validation 20.12, test 19.00 a token; validation 80.12, test 75.00 a word");
}

TEST(SummaryNumbers, AreStatedOnceAndCanBeShown) {
  std::set<std::string_view> names;
  for (const SummaryNumber& number : summary_numbers()) {
    EXPECT_TRUE(names.insert(number.name).second) << number.name;
    EXPECT_NE(number.value, nullptr) << number.name;
    EXPECT_EQ(number.printed.empty(), number.unit.empty()) << number.name;
    EXPECT_TRUE(number.label.empty() || number.text != nullptr || !number.printed.empty()) << number.name;
    if (!number.printed.empty()) {
      EXPECT_THAT(sample().str(), HasSubstr(" " + std::string(number.unit))) << number.name;
    }
  }
}

}  // namespace
}  // namespace etna::training
