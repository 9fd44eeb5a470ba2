#include <cmath>
#include <regex>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <data/temporary_folder.h>
#include <etna/device/error.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/runs.h>

#include "sample_run.h"
#include "variable.h"

namespace etna::training {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

TEST(RunList, RecordsReadBack) {
  TemporaryFolder folder;
  const fs::path file = folder / "deep/er/runs.jsonl";
  RunRecord run = record("0123abcd");
  run.outcome = Outcome::interrupted;
  run.device = "vulkan:0 (größe \x1b)";
  append_run(run, file);
  const RunList list = read_runs(file);
  EXPECT_EQ(list.damaged, 0u);
  ASSERT_EQ(list.runs.size(), 1u);
  const RunRecord& back = list.runs[0];
  EXPECT_EQ(back.id, run.id);
  EXPECT_EQ(back.time, run.time);
  EXPECT_EQ(back.folder, fs::absolute(run.folder));
  EXPECT_EQ(back.program, run.program);
  EXPECT_EQ(back.device, run.device);
  EXPECT_EQ(back.config, run.config);
  EXPECT_EQ(back.steps, 1000);
  EXPECT_EQ(back.number("tokens_per_second"), 1e6);
  EXPECT_EQ(back.number("final_loss"), 3.25);
  EXPECT_FALSE(back.number("epoch_seconds"));
  EXPECT_EQ(back.number("test_perplexity"), 20.25);
  EXPECT_THAT(back.perplexities, ElementsAre(Pair("valid", 21.5), Pair("test", 20.25)));
  EXPECT_EQ(back.outcome, Outcome::interrupted);
}

TEST(RunList, KeepsNumbersOfAnyName) {
  TemporaryFolder folder;
  RunRecord run = record("a");
  run.numbers = {{"accuracy", 0.75}};
  append_run(run, folder / "runs.jsonl");
  EXPECT_THAT(read_runs(folder / "runs.jsonl").runs.at(0).numbers, ElementsAre(Pair("accuracy", 0.75)));
  run.numbers = {{"steps", 1}};
  EXPECT_THAT([&] { append_run(run, folder / "runs.jsonl"); }, ThrowsMessage<Error>(HasSubstr("no name of a number")));
}

TEST(RunList, IsWhereTheEnvironmentSays) {
  const Variable runs("ETNA_RUNS", "/a"), state("XDG_STATE_HOME", "/b");
  EXPECT_EQ(run_list_file(), "/a/runs.jsonl");
  const Variable empty("ETNA_RUNS", "");
  EXPECT_EQ(run_list_file(), "/b/etna/runs.jsonl");
}

TEST(RunList, FoldersAreRecordedWhole) {
  TemporaryFolder folder;
  RunRecord run = record("1");
  run.folder = "some/../run";
  append_run(run, folder / "runs.jsonl");
  EXPECT_EQ(read_runs(folder / "runs.jsonl").runs.at(0).folder, fs::current_path() / "run");
}

TEST(RunList, NumbersThatAreNotFiniteAreUnknown) {
  TemporaryFolder folder;
  RunRecord run = record("1");
  run.numbers = {{"final_loss", std::nan("")}};
  run.perplexities = {{"valid", INFINITY}};
  append_run(run, folder / "runs.jsonl");
  EXPECT_TRUE(nlohmann::json::accept(read_bytes(folder / "runs.jsonl")));
  EXPECT_FALSE(read_runs(folder / "runs.jsonl").runs.at(0).number("final_loss"));
  EXPECT_TRUE(read_runs(folder / "runs.jsonl").runs.at(0).perplexities.empty());
}

TEST(RunList, AnIdComesOnceAsItWasLast) {
  TemporaryFolder folder;
  const fs::path file = folder / "runs.jsonl";
  RunRecord first = record("a");
  first.outcome = Outcome::interrupted;
  append_run(first, file);
  append_run(record("b"), file);
  append_run(record("a"), file);
  const RunList list = read_runs(file);
  ASSERT_EQ(list.runs.size(), 2u);
  EXPECT_EQ(list.runs[0].id, "b");
  EXPECT_EQ(list.runs[1].outcome, Outcome::finished);
}

TEST(RunList, DamagedLinesAreSkippedAndCounted) {
  TemporaryFolder folder;
  const std::string good = json_text(record("a")) + "\n";
  const fs::path file = folder.write(
      "runs.jsonl", good + "nonsense\n\n{}\n[1]\n{\"id\":7}\n{\"id\":\"\"}\n{\"id\":\"x\",\"steps\":\"many\"}\n\xff\n" +
                        std::string(100'000, '[') + "\n{\"id\":\"deep\",\"config\":" + std::string(5000, '{') + "\n" +
                        json_text(record("b")) + "\n{\"id\":\"cut");
  const RunList list = read_runs(file);
  EXPECT_EQ(list.runs.size(), 2u);
  EXPECT_EQ(list.damaged, 10u);
  // A line that is cut does not damage the next.
  append_run(record("c"), file);
  EXPECT_EQ(read_runs(file).runs.size(), 3u);
  EXPECT_EQ(read_runs(file).damaged, 10u);
}

TEST(RunList, AnyDamageIsReadOrCounted) {
  TemporaryFolder folder;
  const std::string good = json_text(record("a")) + "\n" + json_text(record("b")) + "\n";
  std::uint32_t state = 1;
  const auto random = [&state](std::size_t end) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % end;
  };
  for (int i = 0; i < 150; ++i) {
    std::string bad = good;
    for (std::size_t k = random(4) + 1; k > 0; --k) bad[random(bad.size())] = static_cast<char>(random(256));
    const RunList list = read_runs(folder.write("runs.jsonl", bad));
    for (const RunRecord& run : list.runs) EXPECT_TRUE(nlohmann::json::accept(json_text(run)));
  }
}

TEST(RunList, AFileThatCannotBeWrittenIsAnErrorInWords) {
  TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_THAT([&] { append_run(record("a"), folder / "file" / "runs.jsonl"); },
              ThrowsMessage<FormatError>(AllOf(HasSubstr("cannot be made"), HasSubstr("ETNA_RUNS"))));
  EXPECT_THAT([&] { read_runs(folder.path()); }, ThrowsMessage<FormatError>(HasSubstr("not a regular file")));
  EXPECT_TRUE(read_runs(folder / "none").runs.empty());
  RunRecord run = record("a");
  for (const std::string& config : {std::string(), std::string("[1]"), std::string("{"), std::string(5000, '[')}) {
    run.config = config;
    EXPECT_THAT([&] { append_run(run, folder / "runs.jsonl"); }, ThrowsMessage<Error>(HasSubstr("no JSON object")));
  }
  EXPECT_FALSE(fs::exists(folder / "runs.jsonl"));
}

TEST(RunList, RunsAreFoundByPrefixAndFolder) {
  TemporaryFolder folder;
  RunList list;
  for (const char* id : {"abc1", "abd2", "ffff", "ff"}) list.runs.push_back(record(id));
  list.runs[0].folder = folder.path();
  list.runs[1].folder = folder.path();
  EXPECT_EQ(find_run(list, "abc").id, "abc1");
  EXPECT_EQ(find_run(list, "ff").id, "ff");  // whole ids go first
  EXPECT_EQ(find_run(list, folder.path().string() + "/").id, "abd2");
  EXPECT_EQ(find_run(list, (folder.path() / "x" / "..").string()).id, "abd2");
  EXPECT_THAT([&] { find_run(list, "ab"); },
              ThrowsMessage<FormatError>(HasSubstr("'ab' is the beginning of 2 ids: abc1, abd2")));
  EXPECT_THAT([&] { find_run(list, "x\x1b"); }, ThrowsMessage<FormatError>(HasSubstr("no run 'x\\x1b' among the 4")));
  EXPECT_THAT([&] { find_run(list, ""); }, ThrowsMessage<FormatError>(HasSubstr("no run ''")));
}

TEST(RunList, IdsDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) ids.insert(new_run_id());
  EXPECT_GT(ids.size(), 98u);
  EXPECT_TRUE(std::regex_match(*ids.begin(), std::regex("[0-9a-f]{8}"))) << *ids.begin();
}

TEST(RunList, TimesAreUtc) {
  EXPECT_EQ(utc_time(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(utc_time(1'795'397'406), "2026-11-23T01:30:06Z");
  EXPECT_GT(utc_time(), "2020");
}

}  // namespace
}  // namespace etna::training
