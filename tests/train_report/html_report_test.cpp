#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/device/error.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/metrics.h>
#include <etna/train/report.h>
#include <train_report/sample_report.h>

namespace etna::training {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST(HtmlReport, HasEveryPart) {
  TemporaryFolder folder;
  write_report(folder.path(), sample_report());
  const std::string page = read_bytes(folder / "report.html");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  for (const char* part :
       {"<title>WikiText-2, small</title>", "<dt>Validation perplexity</dt>", ">Loss</text>", ">Learning rate</text>",
        ">Tokens per second</text>", "<h2>Evaluations</h2>", "<h2>Sample</h2>", "<h2>Profile</h2>",
        "<h2>Configuration</h2>", "<h2>Environment</h2>", "<th>dim</th><td>512</td>", "prefers-color-scheme:dark"})
    EXPECT_THAT(page, HasSubstr(part));
}

TEST(HtmlReport, AsksForNothingFromElsewhere) {
  const std::string page = html_report(sample_report());
  for (const char* asking : {"<script", "<link", "@import", "url(", "<iframe", "src=\"http", "href="})
    EXPECT_THAT(page, Not(HasSubstr(asking)));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy\" content=\"default-src 'none'"));
}

TEST(HtmlReport, TextCannotMarkUp) {
  const std::string evil = "\"'><script>alert(1)</script>\x1b[31m";
  RunReport report;
  report.title = report.note = report.prompt = report.sample = evil;
  report.summary = report.config = report.environment = {{evil, evil}};
  report.tables = {{evil, {evil}, {{evil}}}};
  report.curves = {{{{evil, {{0, 1}, {1, 2}}}}, {.title = evil, .x_label = evil}}};
  report.profile_svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(2)</script></svg>";
  for (const std::string& json : {evil, "{\"" + std::string("<script>") + "\":\"<script>\"}"}) {
    report.config_json = json;
    const std::string page = html_report(report);
    EXPECT_THAT(page, Not(HasSubstr("<script")));
    EXPECT_THAT(page, Not(HasSubstr("\x1b")));
    EXPECT_THAT(page, Not(HasSubstr("\"'>")));
  }
}

TEST(HtmlReport, PartsThatAreEmptyAreLeftOut) {
  const std::string page = html_report({});
  EXPECT_THAT(page, HasSubstr("<h1>Training run</h1>"));
  EXPECT_THAT(page, Not(HasSubstr("<h2>")));
  EXPECT_THAT(page, HasSubstr("</html>"));
  RunReport odd;
  odd.tables = {{"empty", {"a"}, {}}, {"ragged", {"a", "b"}, {{"1"}, {"1", "2", "3"}, {}}}};
  odd.config_json = "{cut";
  EXPECT_THAT(html_report(odd), HasSubstr("<pre>{cut</pre>"));
  odd.config_json = "{\"deep\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  EXPECT_THAT(html_report(odd), HasSubstr("<pre>{&quot;deep&quot;:[[["));
}

TEST(HtmlReport, CurvesAreGroupedByWhatTheyShow) {
  TemporaryFolder folder;
  MetricLog log(folder.path());
  log.log(1, {{"loss", 5}, {"lr", 0.1}, {"tokens_per_second", 9}, {"grad_norm", 1}, {"loss_scale", 1024}}, 1);
  log.log(2, {{"loss", std::nan("")}, {"valid_loss", 4}, {"valid_perplexity", 54}}, 2);
  const std::vector<RunReport::Curves> curves = curves_of(read_metrics(folder.path()));
  std::vector<std::string> titles;
  for (const RunReport::Curves& one : curves) titles.push_back(one.options.title);
  EXPECT_THAT(titles,
              ElementsAre("Loss", "Perplexity", "Learning rate", "Tokens per second", "grad_norm", "loss_scale"));
  ASSERT_EQ(curves[0].series.size(), 2u);
  EXPECT_EQ(curves[0].series[0].points.size(), 2u);
  EXPECT_EQ(curves[0].series[1].points.at(0).x, 2);
}

TEST(HtmlReport, ASteepBeginningGetsAPictureWithoutIt) {
  TemporaryFolder folder;
  {
    MetricLog log(folder / "steep");
    for (int step = 0; step < 100; ++step) log.log(step, {{"loss", step < 5 ? 10 : 3 - 0.01 * step}}, step);
  }
  const std::vector<RunReport::Curves> curves = curves_of(read_metrics(folder / "steep"));
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_EQ(curves[1].options.title, "Loss, without the first tenth");
  EXPECT_EQ(curves[1].series.at(0).points.front().x, 10);
  {
    MetricLog log(folder / "even");
    for (int step = 0; step < 100; ++step) log.log(step, {{"loss", 3 - 0.01 * step}}, step);
  }
  EXPECT_EQ(curves_of(read_metrics(folder / "even")).size(), 1u);
}

TEST(HtmlReport, AFolderThatCannotBeWrittenIsAnErrorInWords) {
  TemporaryFolder folder;
  EXPECT_THAT([&] { write_report(folder / "none", {}); }, ThrowsMessage<FormatError>(HasSubstr("report.html")));
}

}  // namespace
}  // namespace etna::training
