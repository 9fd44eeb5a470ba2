#include <cmath>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/metrics.h>
#include <etna/train/report.h>
#include <etna/train/runs.h>

// The program of docs/runs.md, word for word.
namespace etna::training {
namespace {

namespace fs = std::filesystem;

double train_step(int step) { return 2 + 5 * std::exp(-step / 20.0); }

void train_as_documented(const fs::path& folder, const fs::path& list) {
  training::MetricLog metrics(folder, {"loss", "lr"});
  for (int step = 1; step <= 100; ++step) {
    const double loss = train_step(step);
    metrics.log(step, {{"loss", loss}, {"lr", 3e-4}}, 0.1 * step);
  }

  training::RunReport report;
  report.title = "First run";
  report.summary = {{"steps", "100"}, {"device", "cpu"}};
  report.curves = training::curves_of(training::read_metrics(folder));
  training::write_report(folder, report);

  training::RunRecord run{
      .id = training::new_run_id(), .time = training::utc_time(), .folder = folder, .program = "first"};
  run.config = R"({"lr": 0.0003})";
  run.steps = 100;
  run.numbers = {{"final_loss", 2.03}, {"accuracy", 0.95}};
  training::append_run(run, list);
}

/// The lines of a text without their indentation.
std::string flush_left(const std::string& text) {
  std::string out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos) out += line.substr(first) + "\n";
  }
  return out;
}

TEST(RunsPage, ItsProgramRuns) {
  TemporaryFolder folder;
  train_as_documented(folder / "runs/first", folder / "runs.jsonl");
  EXPECT_EQ(read_metrics(folder / "runs/first").rows().size(), 100u);
  EXPECT_TRUE(fs::exists(folder / "runs/first/report.html"));
  EXPECT_EQ(read_runs(folder / "runs.jsonl").runs.at(0).number("accuracy"), 0.95);
}

TEST(RunsPage, ItsProgramIsThisOne) {
  const std::string page = read_bytes(ETNA_SOURCE_DIR "/docs/runs.md");
  const std::size_t fence = page.find("```cpp\n");
  ASSERT_NE(fence, std::string::npos);
  const std::size_t begin = fence + 7;
  std::string program = page.substr(begin, page.find("```", begin) - begin);
  const std::string known = flush_left(read_bytes(ETNA_SOURCE_DIR "/tests/train_report/documented_test.cpp"));
  // The page names a folder and leaves the list at its usual place.
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = program.find(from); at != std::string::npos; at = program.find(from, at + to.size()))
      program.replace(at, from.size(), to);
  };
  replace("\"runs/first\"", "folder");
  replace("append_run(run)", "append_run(run, list)");
  EXPECT_NE(known.find(flush_left(program)), std::string::npos) << program;
}

}  // namespace
}  // namespace etna::training
