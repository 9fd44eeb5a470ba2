#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <data/temporary_folder.h>
#include <etna/data/csv.h>
#include <etna/device/error.h>
#include <etna/train/internal/event_file.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/metrics.h>
#include <runner/system_words.h>

namespace etna::training {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

const double kMetricLogInf = std::numeric_limits<double>::infinity();

std::string csv(const TemporaryFolder& folder) { return read_bytes(folder / "metrics.csv"); }
std::string jsonl(const TemporaryFolder& folder) { return read_bytes(folder / "metrics.jsonl"); }

std::vector<fs::path> event_files(const TemporaryFolder& folder) {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(folder.path())) {
    if (file.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(MetricLog, WritesEachRowToAllFilesAtOnce) {
  TemporaryFolder folder;
  MetricLog log(folder.path(), {"loss", "lr"});
  log.log(1, {{"loss", 3.25}, {"lr", 1e-3}}, 0.5);
  EXPECT_EQ(csv(folder), "step,seconds,loss,lr\n1,0.500,3.25,0.001\n");
  EXPECT_EQ(jsonl(folder), "{\"step\":1,\"seconds\":0.500,\"loss\":3.25,\"lr\":0.001}\n");
  ASSERT_EQ(event_files(folder).size(), 1u);
  EXPECT_EQ(read_event_file(event_files(folder)[0]).events.size(), 3u);
  log.log(2, {{"loss", 3}}, 1);
  EXPECT_EQ(csv(folder), "step,seconds,loss,lr\n1,0.500,3.25,0.001\n2,1.000,3,\n");
  EXPECT_EQ(read_event_file(event_files(folder)[0]).events.size(), 4u);
}

TEST(MetricLog, NumbersReadBackExactly) {
  TemporaryFolder folder;
  MetricLog log(folder.path(), {"x"});
  const std::vector<double> numbers = {0.1, 1.0 / 3, 5e-324, -1.7976931348623157e308, 1e22, 123456789012345680.0, -0.0};
  for (const double x : numbers) log.log(7, {{"x", x}}, 1);
  const std::vector<MetricPoint> points = read_metrics(folder.path()).points("x");
  ASSERT_EQ(points.size(), numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(points[i].value, numbers[i]);
  fs::remove(folder / "metrics.jsonl");
  const std::vector<MetricPoint> from_csv = read_metrics(folder.path()).points("x");
  ASSERT_EQ(from_csv.size(), numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(from_csv[i].value, numbers[i]);
}

TEST(MetricLog, UndeclaredNamesGoToJsonAndTensorBoardAlone) {
  TemporaryFolder folder;
  MetricLog log(folder.path(), {"loss"});
  log.log(1, {{"loss", 3}, {"valid_loss", 4}}, 1);
  EXPECT_EQ(csv(folder), "step,seconds,loss\n1,1.000,3\n");
  const Metrics metrics = read_metrics(folder.path());
  EXPECT_THAT(metrics.names(), ElementsAre("loss", "valid_loss"));
  EXPECT_EQ(metrics.points("valid_loss").at(0).value, 4);
  EXPECT_EQ(read_event_file(event_files(folder)[0]).events.at(2).scalars.size(), 2u);
  EXPECT_TRUE(metrics.points("nothing").empty());
}

TEST(MetricLog, NumbersThatAreNotFiniteKeepTheFilesValid) {
  TemporaryFolder folder;
  MetricLog log(folder.path(), {"a", "b", "c"});
  log.log(1, {{"a", std::nan("")}, {"b", kMetricLogInf}, {"c", -kMetricLogInf}}, 1);
  EXPECT_THAT(csv(folder), HasSubstr("1,1.000,nan,inf,-inf\n"));
  const auto row = nlohmann::json::parse(jsonl(folder));
  EXPECT_EQ(row["a"], "NaN");
  EXPECT_EQ(row["b"], "Infinity");
  EXPECT_EQ(row["c"], "-Infinity");
  for (const char* removed : {"none", "metrics.jsonl"}) {
    fs::remove(folder / removed);
    const Metrics metrics = read_metrics(folder.path());
    EXPECT_TRUE(std::isnan(metrics.points("a").at(0).value));
    EXPECT_EQ(metrics.points("b").at(0).value, kMetricLogInf);
    EXPECT_EQ(metrics.points("c").at(0).value, -kMetricLogInf);
  }
}

TEST(MetricLog, NamesAreQuotedOrRefused) {
  TemporaryFolder folder;
  MetricLog log(folder.path(), {"a,b", "say \"hi\"", "größe", "<script>"});
  log.log(1, {{"a,b", 1}, {"say \"hi\"", 2}, {"größe", 3}, {"<script>", 4}, {"back\\slash", 5}}, 1);
  EXPECT_THAT(data::read_csv(folder / "metrics.csv").columns(),
              ElementsAre("step", "seconds", "a,b", "say \"hi\"", "größe", "<script>"));
  EXPECT_EQ(read_metrics(folder.path()).points("say \"hi\"").at(0).value, 2);
  EXPECT_EQ(read_metrics(folder.path()).points("back\\slash").at(0).value, 5);
  const std::string before = jsonl(folder);
  const auto refuses = [&](const std::string& name, const char* why) {
    EXPECT_THAT([&] { log.log(2, {{name, 1}}, 2); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refuses("", "is empty");
  refuses("step", "is taken");
  refuses("seconds", "is taken");
  refuses("a\x1b[31m", "'a\\x1b[31m' has control characters");
  refuses("two\nlines", "control characters");
  refuses("\xff", "is not UTF-8");
  EXPECT_THAT([&] { log.log(2, {{"a", 1}, {"a", 2}}, 2); }, ThrowsMessage<Error>(HasSubstr("'a' comes twice")));
  EXPECT_THAT([&] { log.log(-1, {{"a", 1}}, 2); }, ThrowsMessage<Error>(HasSubstr("step is -1")));
  EXPECT_THAT([&] { log.log(2, {{"a", 1}}, kMetricLogInf); }, ThrowsMessage<Error>(HasSubstr("seconds are inf")));
  EXPECT_EQ(jsonl(folder), before);
  EXPECT_THAT([&] { MetricLog(folder.path(), {"x", "x"}); }, ThrowsMessage<Error>(HasSubstr("comes twice")));
}

TEST(MetricLog, BeginningAnewKeepsTheEarlierFiles) {
  TemporaryFolder folder;
  { MetricLog(folder.path(), {"loss"}).log(5, {{"loss", 1}}, 1); }
  MetricLog log(folder.path(), {"loss"});
  EXPECT_EQ(csv(folder), "step,seconds,loss\n");
  EXPECT_EQ(jsonl(folder), "");
  EXPECT_THAT(read_bytes(folder / "metrics.csv.old"), HasSubstr("5,1.000,1"));
  EXPECT_THAT(read_bytes(folder / "metrics.jsonl.old"), HasSubstr("\"step\":5"));
  EXPECT_EQ(read_event_file(event_files(folder).back()).events.at(1).step, 0);
}

TEST(MetricLog, ResumingRemovesLaterRows) {
  TemporaryFolder folder;
  {
    MetricLog log(folder.path(), {"loss"});
    for (int step = 10; step <= 50; step += 10) log.log(step, {{"loss", step}, {"extra", 1}}, step);
  }
  folder.write("metrics.jsonl", jsonl(folder) + "{\"step\":60,\"sec");  // killed here
  folder.write("metrics.csv", csv(folder) + "60,6");
  {
    MetricLog log(folder.path(), {"loss"}, 30);
    log.log(31, {{"loss", 0.5}}, 31);
  }
  EXPECT_EQ(csv(folder), "step,seconds,loss\n10,10.000,10\n20,20.000,20\n30,30.000,30\n31,31.000,0.5\n");
  EXPECT_EQ(read_metrics(folder.path()).points("extra").size(), 3u);
  EXPECT_FALSE(read_metrics(folder.path()).cut());
  ASSERT_EQ(event_files(folder).size(), 2u);
  const Event start = read_event_file(event_files(folder)[1]).events.at(1);
  EXPECT_TRUE(start.session_start);
  EXPECT_EQ(start.step, 31);  // TensorBoard drops what is there from here on
}

TEST(MetricLog, ResumingTwiceGivesTheSameBytes) {
  TemporaryFolder folder;
  { MetricLog(folder.path(), {"a", "b"}).log(3, {{"b", 1.0 / 3}, {"c", std::nan("")}}, 2.5); }
  const std::string rows = csv(folder), objects = jsonl(folder);
  for (int i = 0; i < 2; ++i) MetricLog(folder.path(), {"a", "b"}, 3);
  EXPECT_EQ(csv(folder), rows);
  EXPECT_EQ(jsonl(folder), objects);
}

TEST(MetricLog, ResumingMayDeclareOtherColumns) {
  TemporaryFolder folder;
  { MetricLog(folder.path(), {"a"}).log(1, {{"a", 1}, {"b", 2}}, 1); }
  { MetricLog(folder.path(), {"b", "c"}, 1).log(2, {{"c", 3}}, 2); }
  EXPECT_EQ(csv(folder), "step,seconds,b,c\n1,1.000,2,\n2,2.000,,3\n");
}

TEST(MetricLog, ResumingWorksWithoutJsonAndInAnEmptyFolder) {
  TemporaryFolder folder;
  folder.write("metrics.csv", "step,loss\n1,5\n2,4\n3,3\n");
  { MetricLog log(folder.path(), {"loss"}, 2); }
  EXPECT_EQ(csv(folder), "step,seconds,loss\n1,,5\n2,,4\n");
  { MetricLog log(folder / "fresh" / "run", {"loss"}, 100); }
  EXPECT_EQ(read_bytes(folder / "fresh" / "run" / "metrics.csv"), "step,seconds,loss\n");
  EXPECT_THAT([&] { MetricLog(folder.path(), {}, -1); }, ThrowsMessage<Error>(HasSubstr("resume_at_step is -1")));
}

TEST(MetricLog, ReadsACutLastLineAndRefusesOtherDamage) {
  TemporaryFolder folder;
  const std::string good = "{\"step\":1,\"loss\":2}\n";
  folder.write("metrics.jsonl", good + "{\"step\":2,\"lo\xc3");
  EXPECT_EQ(read_metrics(folder.path()).rows().size(), 1u);
  EXPECT_TRUE(read_metrics(folder.path()).cut());
  folder.write("metrics.jsonl", good + "{\"step\":2,\"loss\":1}");  // an editor left out the line break
  EXPECT_EQ(read_metrics(folder.path()).rows().size(), 2u);
  for (const char* bad : {"{\"step\":1\n", "[1]\n", "\n", "{\"loss\":1}\n", "{\"step\":-1}\n", "{\"step\":1.5}\n",
                          "{\"step\":18446744073709551615}\n", "{\"step\":1,\"loss\":\"low\"}\n",
                          "{\"step\":1,\"loss\":[1]}\n", "{\"step\":1,\"lo\xff\":1}\n"}) {
    folder.write("metrics.jsonl", good + bad + good);
    EXPECT_THAT([&] { read_metrics(folder.path()); }, ThrowsMessage<FormatError>(HasSubstr("metrics.jsonl: line 2")))
        << bad;
  }
  folder.write("metrics.jsonl", std::string(200'000, '['));
  EXPECT_TRUE(read_metrics(folder.path()).cut());
  fs::remove(folder / "metrics.jsonl");
  EXPECT_THAT([&] { read_metrics(folder.path()); }, ThrowsMessage<FormatError>(HasSubstr("has no metrics")));
  folder.write("metrics.csv", "step,loss\n1,2\n2,");
  EXPECT_EQ(read_metrics(folder.path()).rows().size(), 1u);
  folder.write("metrics.csv", "step,loss\n1,2\nx,1\n");
  EXPECT_THAT([&] { read_metrics(folder.path()); }, ThrowsMessage<FormatError>(HasSubstr("row 2: step is 'x'")));
  folder.write("metrics.csv", "time,loss\n1,2\n");
  EXPECT_THAT([&] { read_metrics(folder.path()); }, ThrowsMessage<FormatError>(HasSubstr("no column is named 'step'")));
  folder.write("metrics.csv", "");
  EXPECT_TRUE(read_metrics(folder.path()).rows().empty());
}

TEST(MetricLog, AnyDamageIsReadOrRefused) {
  TemporaryFolder folder;
  {
    MetricLog log(folder.path(), {"loss", "a,b"});
    for (int step = 0; step < 5; ++step) log.log(step, {{"loss", 1.5}, {"a,b", kMetricLogInf}}, step);
  }
  std::uint32_t state = 1;
  const auto random = [&state](std::size_t end) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % end;
  };
  int read = 0, refused = 0;
  for (const char* name : {"metrics.jsonl", "metrics.csv"}) {
    const std::string good = read_bytes(folder / name);
    for (int i = 0; i < 100; ++i) {
      std::string bad = good;
      for (std::size_t k = random(4) + 1; k > 0; --k) bad[random(bad.size())] = static_cast<char>(random(256));
      if (i % 3 == 0) bad.resize(random(bad.size()));
      folder.write(name, bad);
      try {
        read_metrics(folder.path());
        ++read;
      } catch (const FormatError&) {
        ++refused;
      }
    }
    fs::remove(folder / name);
  }
  EXPECT_GT(read, 10);
  EXPECT_GT(refused, 10);
}

TEST(MetricLog, AFolderThatCannotBeWrittenIsAnErrorInWords) {
  TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_THAT([&] { MetricLog(folder / "file", {}); }, ThrowsMessage<FormatError>(HasSubstr("file cannot be made")));
  fs::create_directory(folder / "metrics.csv");
  EXPECT_THAT([&] { MetricLog(folder.path(), {}); },
              ThrowsMessage<FormatError>(HasSubstr(std::string("metrics.csv cannot be written: ") + kIsAFolder)));
}

TEST(MetricLog, AHundredThousandRowsTakeSeconds) {
  TemporaryFolder folder;
  const auto begin = std::chrono::steady_clock::now();
  {
    MetricLog log(folder.path(), {"loss", "lr"});
    for (int step = 0; step < 100'000; ++step) log.log(step, {{"loss", 1.0 / (step + 1)}, {"lr", 1e-3}}, step * 0.01);
  }
  const std::chrono::duration<double> written = std::chrono::steady_clock::now() - begin;
  const Metrics metrics = read_metrics(folder.path());
  EXPECT_EQ(metrics.points("loss").size(), 100'000u);
  { MetricLog log(folder.path(), {"loss", "lr"}, 50'000); }
  EXPECT_EQ(read_metrics(folder.path()).rows().size(), 50'001u);
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  RecordProperty("milliseconds_to_write", static_cast<int>(written.count() * 1e3));
  RecordProperty("milliseconds", static_cast<int>(all.count() * 1e3));
  EXPECT_LT(all.count(), 60);
}

}  // namespace
}  // namespace etna::training
