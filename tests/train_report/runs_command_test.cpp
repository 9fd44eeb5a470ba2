#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/device/internal/os/folders.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/progress.h>

#include "runs_command.h"

namespace etna {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

TEST_F(RunsCommand, SaysWhereRunsWillBe) {
  const Result none = runs("");
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.output, AllOf(HasSubstr("no runs yet"), HasSubstr(list().string())));
  EXPECT_EQ(runs("--json").output, "[]\n");
  const Result homeless = etna("runs", "-u ETNA_RUNS -u XDG_STATE_HOME -u HOME -u LOCALAPPDATA");
  EXPECT_EQ(homeless.code, 1);
  EXPECT_THAT(homeless.output,
              HasSubstr(std::string("none of ETNA_RUNS, XDG_STATE_HOME and ") + os::kUserFolderVariable + " is set"));
}

TEST_F(RunsCommand, ListsTheNewestFirst) {
  add_three();
  const Result all = runs("");
  EXPECT_EQ(all.code, 0) << all.output;
  ASSERT_EQ(lines(all.output).size(), 4u);
  EXPECT_THAT(lines(all.output)[0], AllOf(HasSubstr("run "), HasSubstr("started (UTC)"), HasSubstr("ppl valid")));
  EXPECT_THAT(lines(all.output)[0], Not(HasSubstr("s/epoch")));  // no run has it
  EXPECT_THAT(lines(all.output)[1], AllOf(HasSubstr("bb33"), HasSubstr("2026-11-22 01:30"), HasSubstr("181,204")));
  EXPECT_THAT(lines(all.output)[3],
              AllOf(HasSubstr("aa11"), HasSubstr("33.12"), HasSubstr((folder_ / "aa11").string())));
  EXPECT_THAT(lines(runs("--last 1").output).back(), HasSubstr("bb33"));
  EXPECT_THAT(lines(runs("--reverse").output)[1], HasSubstr("aa11"));
  EXPECT_THAT(lines(runs("--reverse --last 2").output)[1], HasSubstr("aa22"));
}

TEST_F(RunsCommand, SortsByResultsAndConfiguration) {
  add_three();
  EXPECT_THAT(lines(runs("--sort loss").output)[1], HasSubstr("aa22"));
  EXPECT_THAT(lines(runs("--sort loss --reverse").output)[1], HasSubstr("aa11"));
  EXPECT_THAT(lines(runs("--sort model.dim").output)[1], HasSubstr("aa11"));
  EXPECT_THAT(lines(runs("--sort dropout").output)[1], HasSubstr("bb33"));  // those without it are last
  EXPECT_THAT(lines(runs("--sort dropout --reverse").output)[1], HasSubstr("bb33"));
  const Result unknown = runs("--sort speeed");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output, AllOf(HasSubstr("no run has this field"), HasSubstr("tokens_per_second")));
}

TEST_F(RunsCommand, ShowsNumbersThatOnlySomeProgramsHave) {
  add_three();
  training::RunRecord run;
  run.id = "cc44";
  run.program = "mnist";
  run.numbers = {{"accuracy", 0.975}};
  training::append_run(run, list());
  const Result all = runs("");
  EXPECT_THAT(lines(all.output)[0], AllOf(HasSubstr("accuracy"), HasSubstr("tokens/s")));
  EXPECT_THAT(lines(all.output)[1], AllOf(HasSubstr("cc44"), HasSubstr("0.9750")));
  EXPECT_THAT(lines(runs("--sort accuracy").output)[1], HasSubstr("cc44"));
  EXPECT_THAT(runs("compare cc44 bb33").output, HasSubstr("accuracy"));
}

TEST_F(RunsCommand, FiltersByResultsAndConfiguration) {
  add_three();
  EXPECT_EQ(lines(runs("--filter device=vulkan").output).size(), 2u);
  EXPECT_EQ(lines(runs("--filter lr=3e-4").output).size(), 3u);
  EXPECT_EQ(lines(runs("--filter lr=3e-4 --filter device=cpu").output).size(), 2u);
  EXPECT_EQ(runs("--filter lr=7").output, "none of the 3 runs matches\n");
  EXPECT_EQ(runs("--filter lr").code, 2);
  EXPECT_EQ(runs("--last 0").code, 2);
  EXPECT_EQ(runs("--nonsense").code, 2);
}

TEST_F(RunsCommand, FitsTheTerminal) {
  add_three();
  for (const int width : {1, 40, 60, 80, 100, 132, 300}) {
    for (const char* locale : {"LC_ALL=C.UTF-8", "LC_ALL=C"}) {
      const Result all = runs("", "COLUMNS=" + std::to_string(width) + " " + locale);
      for (const std::string& line : lines(all.output)) EXPECT_LE(training::columns(line), std::max(40, width)) << line;
      EXPECT_THAT(lines(all.output)[1], AllOf(HasSubstr("bb33"), HasSubstr("3")));
    }
  }
}

TEST_F(RunsCommand, PrintsJson) {
  add_three();
  const Json all = Json::parse(runs("--json --filter lr=3e-4").output);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["id"], "bb33");
  EXPECT_EQ(all[0]["config"]["model"]["dim"], 512);
  EXPECT_EQ(all[1]["perplexities"]["valid"], std::exp(2.5));
}

TEST_F(RunsCommand, ComparesWhatDiffers) {
  add_three();
  const Result two = runs("compare aa1 bb");
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_THAT(two.output, AllOf(HasSubstr("lr"), HasSubstr("model.dim"), HasSubstr("dropout"), HasSubstr("final_loss"),
                                HasSubstr("valid_perplexity"), HasSubstr("0.0003")));
  EXPECT_THAT(two.output, Not(HasSubstr("first")));
  const Result same = runs("compare aa11 '" + (folder_ / "aa11").string() + "'");
  EXPECT_THAT(same.output, HasSubstr("configuration: the same"));
  const Json json = Json::parse(runs("compare aa11 aa22 bb33 --json").output);
  EXPECT_EQ(json["runs"].size(), 3u);
  EXPECT_EQ(json["config_differs"]["model.dim"], Json({256, 512, 512}));
  EXPECT_EQ(json["config_differs"]["dropout"], Json({nullptr, nullptr, 0.1}));
  EXPECT_FALSE(json["config_differs"].contains("name"));
  for (const int width : {40, 50, 120}) {
    const Result fits = runs("compare aa11 aa22 bb33", "COLUMNS=" + std::to_string(width));
    for (const std::string& line : lines(fits.output)) EXPECT_LE(training::columns(line), std::max(40, width)) << line;
    for (const char* id : {"aa11", "aa22", "bb33"}) EXPECT_THAT(fits.output, HasSubstr(id));
  }
}

TEST_F(RunsCommand, UnknownRunsAreDataErrors) {
  add_three();
  const Result ambiguous = runs("compare aa bb");
  EXPECT_EQ(ambiguous.code, 4);
  EXPECT_THAT(ambiguous.output, HasSubstr("beginning of 2 ids: aa11, aa22"));
  const Result unknown = runs("compare aa11 cc");
  EXPECT_EQ(unknown.code, 4);
  EXPECT_THAT(unknown.output, HasSubstr("no run 'cc'"));
  EXPECT_EQ(runs("compare aa11").code, 2);
  EXPECT_EQ(runs("plot").code, 2);
  const Result without = runs("plot bb33");
  EXPECT_EQ(without.code, 4);
  EXPECT_THAT(without.output, HasSubstr("has no metrics"));
}

TEST_F(RunsCommand, PlotsOnTheTerminal) {
  add_three();
  const Result one = runs("plot aa11");
  EXPECT_EQ(one.code, 0) << one.output;
  EXPECT_THAT(one.output, AllOf(HasSubstr("loss"), HasSubstr("valid_loss"), HasSubstr("┤"), Not(HasSubstr("\x1b"))));
  for (const std::string& line : lines(one.output)) EXPECT_LE(training::columns(line), 80u);
  EXPECT_THAT(runs("plot aa11", "LC_ALL=C").output, Not(HasSubstr("┤")));
  const Result two = runs("plot aa11 '" + (folder_ / "aa22").string() + "' --metric loss --log");
  EXPECT_THAT(two.output, AllOf(HasSubstr("aa11 loss"), HasSubstr("aa22 loss"), Not(HasSubstr("valid"))));
  const Result unknown = runs("plot aa11 --metric los");
  EXPECT_EQ(unknown.code, 4);
  EXPECT_THAT(unknown.output, HasSubstr("no metric is named 'los'; there are loss, valid_loss"));
}

TEST_F(RunsCommand, PlotsAsAPictureAndAsJson) {
  add_three();
  const std::string picture = (folder_ / "loss.svg").string();
  const Result made = runs("plot aa11 aa22 --svg '" + picture + "'");
  EXPECT_EQ(made.code, 0) << made.output;
  EXPECT_EQ(made.output, "");
  EXPECT_THAT(training::read_bytes(picture), AllOf(HasSubstr("<svg"), HasSubstr("aa22 loss")));
  const Json json = Json::parse(runs("plot aa11 --metric loss --json").output);
  EXPECT_EQ(json[0]["run"], "aa11");
  EXPECT_EQ(json[0]["points"].size(), 200u);
  EXPECT_EQ(json[0]["points"][0], Json({0, 8.5}));
}

TEST_F(RunsCommand, DamagedLinesAreCounted) {
  add_three();
  { std::ofstream(list(), std::ios::app | std::ios::binary) << "nonsense\n\n{\"id\":3}\n"; }
  const Result all = runs("");
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.output, HasSubstr("2 damaged lines of " + list().string() + " left out"));
  EXPECT_THAT(all.output, HasSubstr("aa11"));
}

}  // namespace
}  // namespace etna
