#pragma once

#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cli/etna_program.h>
#include <data/temporary_folder.h>
#include <etna/train/metrics.h>
#include <etna/train/runs.h>

namespace etna {

/// Runs of a made-up list, and `etna runs` about them.
class RunsCommand : public testing::Test {
 protected:
  void add(const std::string& id, double loss, const std::string& config, bool metrics = true) {
    training::RunRecord run;
    run.id = id;
    run.time = "2026-11-2" + std::to_string(count_++) + "T01:30:06Z";
    run.folder = folder_ / id;
    run.program = "wikitext train";
    run.device = loss < 3 ? "vulkan:0 (NVIDIA H200)" : "cpu";
    run.config = config;
    run.steps = 12'000;
    run.numbers = {{"final_loss", loss}, {"tokens_per_second", 181'204.4}};
    run.perplexities = {{"valid", std::exp(loss)}};
    training::append_run(run, list());
    if (!metrics) return;
    training::MetricLog log(run.folder, {"loss"});
    for (int step = 0; step < 200; ++step) log.log(step, {{"loss", loss + 5 * std::exp(-step / 40.0)}}, step);
    log.log(200, {{"valid_loss", loss}}, 200);
  }
  void add_three() {
    add("aa11", 3.5, R"({"lr":0.001,"model":{"dim":256},"name":"first"})");
    add("aa22", 2.5, R"({"lr":0.0003,"model":{"dim":512},"name":"first"})");
    add("bb33", 3.0, R"({"lr":0.0003,"model":{"dim":512},"name":"first","dropout":0.1})", false);
  }
  std::filesystem::path list() const { return folder_ / "runs.jsonl"; }
  Result runs(const std::string& arguments, const std::string& environment = "") {
    return etna("runs " + arguments,
                "-u COLUMNS LC_ALL=C.UTF-8 ETNA_RUNS='" + folder_.path().string() + "' " + environment);
  }
  static std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }

  TemporaryFolder folder_;
  int count_ = 0;
};

}  // namespace etna
