#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include <etna/device/internal/vulkan/api/injection.h>
#include <etna/device/memory.h>
#include <etna/device/profile/profiler.h>

#include "vulkan_fixture.h"

namespace etna::profile {
namespace {

using ::testing::HasSubstr;

std::vector<HostSpan> named(const Profile& profile, const std::string& name) {
  std::vector<HostSpan> found;
  for (const HostSpan& span : profile.host) {
    if (span.name == name) found.push_back(span);
  }
  return found;
}

template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void spend(std::int64_t ns) {
  for (std::int64_t until = detail::now_ns() + ns; detail::now_ns() < until;) {}
}

TEST(Profiler, ScopesNestAndSum) {
  Session session;
  {
    Scope outer("outer", Category::phase);
    for (int i = 0; i < 3; ++i) {
      Scope inner(std::string("inner"), Category::op);
      spend(20'000);
    }
  }
  Profile seen = session.stop();
  auto outer = named(seen, "outer"), inner = named(seen, "inner");
  ASSERT_EQ(outer.size(), 1u);
  ASSERT_EQ(inner.size(), 3u);
  EXPECT_EQ(outer[0].category, Category::phase);
  std::int64_t sum = 0;
  for (const HostSpan& span : inner) {
    EXPECT_GE(span.end - span.begin, 20'000);
    EXPECT_GE(span.begin, outer[0].begin);
    EXPECT_LE(span.end, outer[0].end);
    sum += span.end - span.begin;
  }
  EXPECT_LE(sum, outer[0].end - outer[0].begin);
  EXPECT_LE(outer[0].end, seen.end);
  EXPECT_GE(outer[0].begin, seen.begin);
  EXPECT_EQ(&seen.host[0] + 1, &*std::find_if(seen.host.begin() + 1, seen.host.end(), [](const auto& s) {
    return s.name == std::string("inner");
  })) << "outer before inner";
}

TEST(Profiler, MeasuresNothingWhenOff) {
  { Scope before("before"); }
  start();
  Profile empty = stop();
  EXPECT_TRUE(named(empty, "before").empty());
  { Scope between("between"); }
  start();
  Scope open("still open");
  Profile seen = stop();
  EXPECT_TRUE(named(seen, "between").empty());
  EXPECT_TRUE(named(seen, "still open").empty());
  EXPECT_FALSE(taking());
}

TEST(Profiler, AScopeThatOutlivesItsProfileIsInNone) {
  start();
  {
    Scope across("across");
    stop();
    start();
  }
  EXPECT_TRUE(named(stop(), "across").empty());
}

TEST(Profiler, StartTwiceAndStopWithoutStartAreErrorsInWords) {
  EXPECT_THAT(error_of([] { stop(); }), HasSubstr("call start() before stop()"));
  start();
  EXPECT_THAT(error_of([] { start(); }), HasSubstr("taken already"));
  EXPECT_TRUE(taking());
  stop();
  { Session thrown_away; }
  EXPECT_FALSE(taking());
}

TEST(Profiler, SeesEveryThreadByItsName) {
  Session session;
  { Scope here("here"); }
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([t] {
      name_thread("worker " + std::to_string(t));
      for (int i = 0; i < 3000; ++i) Scope work(t == 0 ? "left" : "right");
    });
  }
  for (auto& thread : threads) thread.join();
  Profile seen = session.stop();
  auto left = named(seen, "left"), right = named(seen, "right");
  ASSERT_EQ(left.size(), 3000u);
  ASSERT_EQ(right.size(), 3000u);
  EXPECT_EQ(seen.threads.at(left[0].thread), "worker 0");
  EXPECT_EQ(seen.threads.at(right[0].thread), "worker 1");
  EXPECT_EQ(seen.threads.at(named(seen, "here").at(0).thread), "main");
  for (std::size_t i = 1; i < left.size(); ++i) {
    ASSERT_EQ(left[i].thread, left[0].thread);
    ASSERT_GE(left[i].begin, left[i - 1].end);
  }
}

TEST(Profiler, ThreadsMayBeMeasuredWhileProfilesComeAndGo) {
  std::atomic<bool> enough{false}, going{false};
  std::thread busy([&] {
    for (; !enough; going = true) Scope work("busy");
  });
  while (!going) std::this_thread::yield();
  std::size_t seen = 0;
  for (int i = 0; i < 50 || (seen == 0 && i < 5000); ++i) {
    Session session;
    spend(50'000);
    seen += named(session.stop(), "busy").size();
  }
  enough = true;
  busy.join();
  EXPECT_GT(seen, 0u);
}

TEST(Profiler, CountsWhatFindsNoRoom) {
  Session session({.max_spans = 10});
  for (int i = 0; i < 25; ++i) Scope work("work");
  Profile seen = session.stop();
  EXPECT_EQ(named(seen, "work").size(), 10u);
  EXPECT_EQ(seen.dropped, 15u);
}

TEST(Profiler, LabelsTellWhereWorkIsQueued) {
  EXPECT_EQ(Labels::now().phase, nullptr);
  KeepLabels keep;
  Scope phase("backward", Category::phase);
  Scope node(std::string("softmax"), Category::autograd);
  Scope op("mul", Category::op);
  EXPECT_STREQ(Labels::now().phase, "backward");
  EXPECT_STREQ(Labels::now().node, "softmax");
  std::thread([] { EXPECT_EQ(Labels::now().phase, nullptr); }).join();
}

using vulkan::VulkanTest;

class GpuProfiler : public VulkanTest {
 protected:
  static constexpr std::uint32_t kWords = 1024;

  static const GpuProfile& gpu(const Profile& profile) {
    auto found =
        std::find_if(profile.gpus.begin(), profile.gpus.end(), [](const GpuProfile& g) { return g.device == kVulkan; });
    EXPECT_NE(found, profile.gpus.end());
    return *found;
  }
  static bool timed(const GpuProfile& gpu) {
    if (gpu.untimed.empty()) return true;
    EXPECT_TRUE(gpu.spans.empty());
    return false;
  }
};

TEST_F(GpuProfiler, SpansLieBehindTheirSubmitAndWithinTheProfile) {
  StoragePtr x = store(Words(kWords, 3)), y = store(Words(kWords));
  Session session;
  {
    Scope phase("backward", Category::phase);
    Scope node(std::string("affine node"), Category::autograd);
    for (std::uint32_t i = 0; i < 250; ++i) dispatch({*x, 0, *y, 0, kWords, 1, i});
  }
  Words result = load(*y, kWords);
  Profile seen = session.stop();
  EXPECT_EQ(result, Words(kWords, 252));
  const GpuProfile& g = gpu(seen);
  EXPECT_EQ(g.dispatches, 250u);
  EXPECT_GE(g.submits, 3u);
  if (!timed(g)) return;
  EXPECT_EQ(g.spans.size(), 251u) << "250 dispatches and a download";
  EXPECT_EQ(g.batches.size(), g.submits);
  const std::int64_t tolerance = 1'000 + g.clock_error_ns;
  std::int64_t sum = 0;
  for (const GpuSpan& span : g.spans) {
    const GpuBatch& batch = g.batches.at(span.batch);
    EXPECT_LE(span.begin, span.end);
    EXPECT_GE(span.begin + tolerance, batch.submitted);
    EXPECT_GE(batch.submitted, span.queued);
    EXPECT_GE(span.queued, seen.begin);
    EXPECT_LE(span.end - tolerance, seen.end);
    EXPECT_EQ(seen.threads.at(span.thread), "main");
    sum += span.end - span.begin;
  }
  // Every dispatch waits for the previous one, so none overlap.
  EXPECT_LE(sum, seen.wall_ns());
  EXPECT_EQ(g.spans[0].name, std::string("affine"));
  EXPECT_EQ(g.spans[0].phase, std::string("backward"));
  EXPECT_EQ(g.spans[0].node, std::string("affine node"));
  EXPECT_EQ(g.spans.back().name, std::string("download"));
  EXPECT_EQ(g.spans.back().phase, nullptr);
  ASSERT_EQ(named(seen, "wait for the GPU").size(), 1u);
  EXPECT_EQ(named(seen, "wait for the GPU")[0].category, Category::wait);
}

TEST_F(GpuProfiler, GroupsBetweenBarriersAreTimedTogether) {
  if (const char* value = std::getenv("ETNA_BARRIERS"); value != nullptr && *value == 'a') return;
  StoragePtr x = store(Words(kWords, 3)), y = store(Words(kWords)), z = store(Words(kWords));
  Session session({.timing = Timing::groups});
  for (std::uint32_t i = 0; i < 150; ++i) {
    dispatch({*x, 0, *y, 0, kWords, 1, i});  // after a barrier
    dispatch({*x, 0, *z, 0, kWords, 1, i});  // concurrent with the previous one
  }
  Profile seen = session.stop();
  const GpuProfile& g = gpu(seen);
  if (!timed(g)) return;
  ASSERT_EQ(g.spans.size(), 300u);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < 300; i += 2) {
    const GpuSpan &a = g.spans[i], &b = g.spans[i + 1];
    ASSERT_EQ(a.at_once, 2u) << i;
    ASSERT_EQ(b.at_once, 2u) << i;
    ASSERT_EQ(a.begin, b.begin);
    ASSERT_EQ(a.end, b.end);
    ASSERT_LE(a.begin, a.end);
    const GpuBatch& batch = g.batches.at(a.batch);
    ASSERT_GE(a.begin, batch.begin);
    ASSERT_LE(a.end, batch.end);
    if (i >= 2 && g.spans[i - 1].batch == a.batch) {
      ASSERT_EQ(a.begin, g.spans[i - 1].end) << "a group begins where one ends";
    }
    sum += a.end - a.begin;
  }
  EXPECT_LE(sum, seen.wall_ns() + g.clock_error_ns);
}

TEST_F(GpuProfiler, ACopyBesideADispatchSharesItsGroup) {
  if (const char* value = std::getenv("ETNA_BARRIERS"); value != nullptr && *value == 'a') return;
  StoragePtr x = store(Words(kWords, 3)), y = store(Words(kWords)), z = store(Words(kWords));
  Session session({.timing = Timing::groups});
  for (std::uint32_t i = 0; i < 3; ++i) {
    dispatch({*x, 0, *y, 0, kWords, 1, i});
    gpu::enqueue_fill(kVulkan, *z, 0, 64, i);
  }
  Words filled = load(*z, 1);
  Profile seen = session.stop();
  EXPECT_EQ(filled[0], 2u);
  const GpuProfile& g = gpu(seen);
  if (!timed(g)) return;
  ASSERT_EQ(g.spans.size(), 7u);
  for (std::size_t i = 1; i < 7; ++i) EXPECT_GE(g.spans[i].begin, g.spans[i - 1].begin) << i;
  EXPECT_EQ(g.spans[1].name, std::string("fill"));
  EXPECT_EQ(g.spans[1].at_once, 2u);
}

TEST_F(GpuProfiler, TransfersAreThoseCounted) {
  Transfers before = transfers();
  Session session;
  StoragePtr x = store(Words(kWords, 3));
  load(*x, 100);
  load(*x, 50);
  Profile seen = session.stop();
  Transfers after = transfers();
  EXPECT_EQ(seen.transfers.h2d_bytes, after.h2d_bytes - before.h2d_bytes);
  EXPECT_EQ(seen.transfers.h2d_bytes, kWords * 4u);
  EXPECT_EQ(seen.transfers.d2h_bytes, 600u);
  EXPECT_EQ(seen.transfers.d2h_calls, 2u);
  std::uint64_t down = 0;
  for (const HostSpan& span : named(seen, "download")) down += span.bytes;
  EXPECT_EQ(down, 600u);
}

TEST_F(GpuProfiler, LongRunsReuseTheirQueries) {
  StoragePtr x = store(Words(kWords, 3)), y = store(Words(kWords));
  Session session;
  for (std::uint32_t i = 0; i < 2000; ++i) dispatch({*x, 0, *y, 0, 64, 1, i});
  Profile seen = session.stop();
  const GpuProfile& g = gpu(seen);
  if (!timed(g)) return;
  EXPECT_EQ(g.spans.size(), 2000u);
  EXPECT_EQ(seen.dropped, 0u);
  for (std::size_t i = 1; i < g.spans.size(); ++i) ASSERT_GE(g.spans[i].begin, g.spans[i - 1].begin) << i;
}

TEST_F(GpuProfiler, WithoutGpuTimesItCountsOnly) {
  StoragePtr x = store(Words(kWords, 3)), y = store(Words(kWords));
  Session session({.gpu = false});
  dispatch({*x, 0, *y, 0, kWords, 1, 1});
  Profile seen = session.stop();
  EXPECT_EQ(gpu(seen).dispatches, 1u);
  EXPECT_TRUE(gpu(seen).spans.empty());
  EXPECT_THAT(gpu(seen).untimed, HasSubstr("without GPU times"));
}

TEST_F(GpuProfiler, ADeviceLostMeanwhileLeavesTheProfilerUsable) {
  StoragePtr x = store(Words(kWords, 4)), y = store(Words(kWords));
  synchronize(kVulkan);
  start();
  dispatch({*x, 0, *y, 0, kWords, 2, 1});
  vulkan::injection::fail_next_submit(-4);
  EXPECT_THROW(synchronize(kVulkan), DeviceLost);
  Profile seen = stop();
  EXPECT_THAT(gpu(seen).untimed, HasSubstr("lost"));
  EXPECT_FALSE(taking());

  vulkan::injection::revive(kVulkan);
  Session session;
  dispatch({*x, 0, *y, 0, kWords, 5, 1});
  EXPECT_EQ(load(*y, kWords), Words(kWords, 21));
  Profile again = session.stop();
  if (timed(gpu(again))) {
    EXPECT_EQ(gpu(again).spans.size(), 2u);
  }
}

TEST_F(GpuProfiler, TwoThreadsShareTheGpu) {
  StoragePtr x = store(Words(kWords, 1));
  synchronize(kVulkan);
  Session session;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      name_thread(t == 0 ? "first" : "second");
      Scope phase(t == 0 ? "one" : "two", Category::phase);
      StoragePtr target = allocate(kVulkan, kWords * 4);
      for (int i = 0; i < 60; ++i) dispatch({*x, 0, *target, 0, kWords, 1, 1});
    });
  }
  for (auto& thread : threads) thread.join();
  Profile seen = session.stop();
  if (!timed(gpu(seen))) return;
  std::map<std::string, std::set<std::string>> by_phase;
  for (const GpuSpan& span : gpu(seen).spans) by_phase[span.phase].insert(seen.threads.at(span.thread));
  EXPECT_EQ(by_phase["one"], std::set<std::string>{"first"});
  EXPECT_EQ(by_phase["two"], std::set<std::string>{"second"});
}

TEST(StepProfilerTest, ProfilesTheStepsAsked) {
  auto run = [](StepProfiler::Options options, int steps) {
    StepProfiler profiler(options);
    for (int i = 0; i < steps; ++i) {
      Scope step = profiler.step();
      Scope inside(i < options.skip ? "before" : i < options.skip + options.steps ? "within" : "behind");
    }
    return profiler.take();
  };
  std::optional<Profile> seen = run({.skip = 2, .steps = 3}, 10);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->steps(), 3);
  EXPECT_EQ(named(*seen, "within").size(), 3u);
  EXPECT_TRUE(named(*seen, "before").empty());
  EXPECT_TRUE(named(*seen, "behind").empty());
  EXPECT_EQ(run({.skip = 2, .steps = 5}, 4)->steps(), 2) << "the loop ended before";
  EXPECT_FALSE(run({.skip = 2, .steps = 5}, 2));
  EXPECT_FALSE(run({.skip = 0, .steps = 0}, 5));
  EXPECT_FALSE(taking());
}

}  // namespace
}  // namespace etna::profile
