#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/device/profile/internal/chrome_trace.h>
#include <etna/device/profile/internal/gpu_lanes.h>
#include <etna/device/profile/profile.h>

// Reports and traces of handwritten profiles with known numbers.
namespace etna::profile {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kMs = 1'000'000;

HostSpan host(const char* name, Category category, std::int64_t begin_ms, std::int64_t end_ms) {
  return {.name = name, .category = category, .thread = 0, .begin = begin_ms * kMs, .end = end_ms * kMs, .bytes = 0};
}

/// Ten milliseconds, one step. The host queues until 4 and waits from 4 to 7; the GPU runs 3 to 5 and 5 to 6, then 8 to
/// 9.
Profile on_gpu() {
  Profile p;
  p.begin = 0;
  p.end = 10 * kMs;
  p.threads = {"main", "a \"quoted\" loader"};
  p.host = {host("step", Category::step, 0, 10), host("linear", Category::op, 1, 2),
            host("backward", Category::phase, 2, 4), host("softmax node", Category::autograd, 2, 3),
            host("wait for the GPU", Category::wait, 4, 7)};
  GpuProfile g;
  g.device = kVulkan;
  g.name = "A GPU";
  g.clock = "calibrated timestamps";
  g.exact = true;
  g.dispatches = 3;
  g.submits = 2;
  g.batches = {{.submitted = 2 * kMs, .begin = 3 * kMs, .end = 6 * kMs, .thread = 0, .spans = 2},
               {.submitted = 7 * kMs, .begin = 8 * kMs, .end = 9 * kMs, .thread = 0, .spans = 1}};
  auto span = [](const char* name, const char* phase, std::uint32_t batch, std::int64_t begin, std::int64_t end) {
    return GpuSpan{.name = name,
                   .node = phase != nullptr ? "softmax node" : nullptr,
                   .phase = phase,
                   .batch = batch,
                   .thread = 0,
                   .queued = kMs,
                   .at_once = 1,
                   .begin = begin * kMs,
                   .end = end * kMs};
  };
  g.spans = {span("linear", nullptr, 0, 3, 5), span("attention_backward", "backward", 0, 5, 6),
             span("upload", nullptr, 1, 8, 9)};
  p.gpus = {g};
  p.transfers = {.h2d_bytes = 4096, .h2d_calls = 2};
  p.memory = {{kVulkan, {.in_use = 1 << 20, .cached = 0, .peak = 3 << 20}}};
  return p;
}

TEST(ProfileSummary, TellsWhatTheGpuDidAndWhyItDidNot) {
  Summary s = summarize(on_gpu());
  EXPECT_EQ(s.steps, 1);
  EXPECT_TRUE(s.of_gpu);
  EXPECT_EQ(s.busy_ns, 4 * kMs);
  EXPECT_EQ(s.idle_ns(), 6 * kMs);
  EXPECT_EQ(s.latency_ns, 2 * kMs) << "2 to 3 and 7 to 8: submitted, not begun";
  EXPECT_EQ(s.gaps_ns, 0);
  EXPECT_EQ(s.waking_ns, 1 * kMs) << "6 to 7: done, the host not yet back";
  EXPECT_EQ(s.host_bound_ns, 3 * kMs) << "0 to 2 and 9 to 10";
  EXPECT_EQ(s.wait_ns, 3 * kMs);
  EXPECT_EQ(s.ops_ns, s.busy_ns);
  EXPECT_EQ(s.product_ns, 2 * kMs);
  EXPECT_EQ(s.attention_ns, 1 * kMs);
  ASSERT_EQ(s.ops.size(), 3u);
  EXPECT_EQ(s.ops[0].name, "linear");
  EXPECT_EQ(s.ops[0].ns[static_cast<int>(Part::forward)], 2 * kMs);
  for (const OpTime& op : s.ops) {
    const auto part = op.name == "linear" ? Part::forward : op.name == "upload" ? Part::rest : Part::backward;
    EXPECT_EQ(op.ns[static_cast<std::size_t>(part)], op.all_ns()) << op.name;
  }
}

TEST(ProfileSummary, SharesTheTimeOfWhatRanAtOnce) {
  Profile p = on_gpu();
  GpuSpan beside = p.gpus[0].spans[0];
  beside.name = "sum";
  p.gpus[0].spans[0].at_once = beside.at_once = 2;
  p.gpus[0].spans.insert(p.gpus[0].spans.begin() + 1, beside);
  Summary s = summarize(p);
  EXPECT_EQ(s.busy_ns, 4 * kMs);
  EXPECT_EQ(s.ops_ns, 4 * kMs);
  EXPECT_EQ(s.product_ns, 1 * kMs);
  EXPECT_EQ(gpu_lanes(p.gpus[0]), (std::vector<int>{0, 1, 0, 0}));
}

TEST(ProfileSummary, WithoutAGpuOpsOfTheHostCountOnce) {
  Profile p;
  p.end = 10 * kMs;
  p.threads = {"main"};
  p.host = {host("softmax", Category::op, 0, 5),     host("exp", Category::op, 1, 2),
            host("backward", Category::phase, 5, 9), host("node", Category::autograd, 5, 9),
            host("matmul", Category::op, 5, 8),      host("matmul", Category::op, 8, 9)};
  Summary s = summarize(p);
  EXPECT_FALSE(s.of_gpu);
  EXPECT_EQ(s.ops_ns, 9 * kMs);
  ASSERT_EQ(s.ops.size(), 2u) << "exp ran inside softmax";
  EXPECT_EQ(s.ops[0].name, "softmax");
  EXPECT_EQ(s.ops[1].calls[static_cast<int>(Part::backward)], 2);
  EXPECT_EQ(s.product_ns, 4 * kMs);
  EXPECT_THAT(report(p), HasSubstr("no steps marked"));
}

TEST(ProfileReport, SaysItAll) {
  std::string text = report(on_gpu());
  for (const char* part : {"1 steps in 10.00 ms", "A GPU", "GPU busy                   4.000 ms   40.0 %",
                           "host-bound               3.000 ms", "4096 bytes in 2.0 calls",
                           "matrix products            2.000 ms   50.0 %", "3.0 MiB peak", "attention_backward"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  Profile untimed = on_gpu();
  untimed.gpus[0].untimed = "its queue has no timestamps";
  untimed.gpus[0].spans.clear();
  untimed.gpus[0].batches.clear();
  EXPECT_THAT(report(untimed), HasSubstr("no GPU times: its queue has no timestamps"));
  EXPECT_THAT(report(untimed), Not(HasSubstr("GPU busy")));
  EXPECT_THAT(report(Profile{}), HasSubstr("0.00 ms"));
}

TEST(ChromeTrace, IsJsonWithEverythingOnOneAxis) {
  auto trace = nlohmann::json::parse(chrome_trace(on_gpu()));
  std::map<std::string, int> categories;
  std::map<int, double> starts, finishes;
  std::set<std::string> named;
  for (const auto& e : trace["traceEvents"]) {
    if (e["ph"] == "M" && e["args"].contains("name")) named.insert(e["args"]["name"].get<std::string>());
    if (e["ph"] == "s") starts[e["id"]] = e["ts"];
    if (e["ph"] == "f") finishes[e["id"]] = e["ts"];
    if (e["ph"] != "X") continue;
    ++categories[e["cat"]];
    EXPECT_GE(e["ts"].get<double>(), 0);
    EXPECT_LE(e["ts"].get<double>() + e["dur"].get<double>(), 10'000);
    if (e["name"] == "attention_backward") {
      EXPECT_EQ(e["ts"], 5000.0);
      EXPECT_EQ(e["dur"], 1000.0);
      EXPECT_EQ(e["args"]["node"], "softmax node");
      EXPECT_EQ(e["args"]["phase"], "backward");
      EXPECT_EQ(e["args"]["submitted_us"], 2000.0);
    }
  }
  EXPECT_EQ(categories, (std::map<std::string, int>{
                            {"step", 1}, {"op", 1}, {"phase", 1}, {"autograd", 1}, {"wait", 1}, {"gpu", 3}}));
  EXPECT_EQ(starts.size(), 3u);
  for (const auto& [id, ts] : starts) EXPECT_LE(ts, finishes.at(id));
  EXPECT_TRUE(named.count("a \"quoted\" loader"));
  EXPECT_TRUE(named.count("vulkan:0 A GPU"));
  EXPECT_TRUE(nlohmann::json::accept(chrome_trace(Profile{})));
}

TEST(TracePicture, DrawsEveryLane) {
  std::string svg = trace_picture(on_gpu());
  EXPECT_TRUE(svg.starts_with("<svg"));
  for (const char* part : {"autograd", "GPU vulkan:0", ">linear<", "#e15759", "matrix product"})
    EXPECT_THAT(svg, HasSubstr(part));
  EXPECT_THAT(trace_picture(Profile{}), HasSubstr("</svg>"));
}

class TraceFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("etna_trace_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string at(const char* name) const { return (folder_ / name).string(); }
  static std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder_;
};

TEST_F(TraceFile, IsChosenByItsName) {
  require_trace_writable(at("a.json"));
  EXPECT_TRUE(fs::is_empty(folder_)) << "asking leaves nothing behind";
  write_trace(on_gpu(), at("a.json"));
  EXPECT_EQ(read(at("a.json")), chrome_trace(on_gpu()));
  write_trace(on_gpu(), at("a.svg"));
  EXPECT_EQ(read(at("a.svg")), trace_picture(on_gpu()));
}

TEST_F(TraceFile, ThatCannotBeWrittenIsSaid) {
  for (const std::string& path : {at("nowhere/a.json"), folder_.string(), std::string()}) {
    EXPECT_THROW(require_trace_writable(path), FormatError) << path;
  }
  EXPECT_THROW(write_trace(on_gpu(), folder_.string()), FormatError);
  EXPECT_FALSE(fs::exists(folder_.string() + ".part"));
}

}  // namespace
}  // namespace etna::profile
