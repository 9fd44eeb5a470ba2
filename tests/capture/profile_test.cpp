#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "training.h"

// The profiler sees captured and replayed steps as it sees eager ones.
namespace etna {
namespace {

class ProfiledReplay : public OnDevice {};
ETNA_ON_BOTH_DEVICES(ProfiledReplay);

/// Losses of ten steps, the last six profiled where asked.
std::vector<float> losses(Device device, std::optional<profile::Timing> timing, profile::Profile* seen = nullptr,
                          std::int64_t* commands = nullptr) {
  Training t(device);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return t.step(x, y); }, {.device = device});
  profile::StepProfiler profiler(
      {.skip = 4, .steps = timing ? 6 : 0, .what = {.timing = timing.value_or(profile::Timing::automatic)}});
  std::vector<float> losses;
  for (std::int64_t i = 0; i < 10; ++i) {
    profile::Scope scope = profiler.step();
    auto [x, y] = Training::batch(i);
    Tensor loss = step(x, y);
    losses.push_back(loss.item<float>());
  }
  if (seen != nullptr) *seen = profiler.take().value();
  if (commands != nullptr) *commands = step.report().commands;
  return losses;
}

TEST_P(ProfiledReplay, TellsOpsAndPhasesOfEveryReplay) {
  const std::vector<float> plain = losses(device(), std::nullopt);
  for (profile::Timing timing : {profile::Timing::groups, profile::Timing::dispatches}) {
    profile::Profile seen;
    std::int64_t commands = 0;
    EXPECT_EQ(losses(device(), timing, &seen, &commands), plain) << "a profile changes nothing";
    EXPECT_EQ(seen.steps(), 6);
    EXPECT_EQ(seen.dropped, 0u);
    profile::Summary summary = profile::summarize(seen);
    std::map<std::string, std::int64_t> phases, calls;
    for (const auto& phase : summary.phases) phases[phase.name] = phase.ns;
    for (const auto& op : summary.ops) calls[op.name] = op.all_calls();
    for (const char* phase : {"forward", "backward", "clip", "optimizer"}) EXPECT_GT(phases[phase], 0) << phase;
    EXPECT_EQ(calls["adam_step_"], 6 * 2) << "two groups of parameters a step";
    EXPECT_GT(summary.product_ns, 0);
    if (device().is_cpu()) continue;

    const profile::GpuProfile& gpu = seen.gpus.at(static_cast<std::size_t>(summary.gpu));
    if (!gpu.untimed.empty()) continue;
    EXPECT_GE(static_cast<std::int64_t>(gpu.spans.size()), 6 * commands);
    EXPECT_LE(summary.ops_ns, summary.wall_ns + 6 * commands);
    for (const profile::GpuSpan& span : gpu.spans) {
      EXPECT_LE(span.begin, span.end);
      EXPECT_GE(span.begin + gpu.clock_error_ns + 1000, gpu.batches[span.batch].submitted);
      EXPECT_LE(span.end - gpu.clock_error_ns - 1000, seen.end);
    }
    EXPECT_TRUE(std::any_of(gpu.spans.begin(), gpu.spans.end(), [](const auto& span) {
      return span.node != nullptr && std::string(span.node) == "linear";
    })) << "work of the tape keeps its node";
  }
}

}  // namespace
}  // namespace etna
