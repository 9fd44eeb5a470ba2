#include <chrono>
#include <cstdint>
#include <span>

#include <fmt/core.h>

#include <etna/device/kernel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>

#include "bench.h"

namespace etna::cli {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

constexpr std::uint32_t kWords = 32;  ///< size of a cell: about the least that a dispatch can sensibly do

Tensor cells(Device device, std::int64_t count) { return empty({count * kWords}, {i32, device}); }

/// The smallest possible dispatch: one workgroup that reads a cell and writes another.
void dispatch(const Tensor& cells, std::int64_t from, std::int64_t to) {
  constexpr std::uint64_t bytes = kWords * 4;
  auto cell = [&](std::int64_t i) {
    const std::uint64_t address = cells.address() + static_cast<std::uint64_t>(i) * bytes;
    return Pointer{address, {address, bytes}};
  };
  gpu::Kernel(shaders::test_ranges, "bench")
      .on(cells.device())
      .spec(kWords, 1)
      .read(cell(from))
      .write(cell(to))
      .u32(kWords, 1, 0)
      .dispatch(1);
}

/// Queues fewer dispatches than the queue collects before it submits, so that the measurement includes no submit.
Measured queue_one(const Sheet& sheet) {
  constexpr std::int64_t kCount = 64;
  const Tensor x = cells(sheet.device(), 2 * kCount + 2);
  std::vector<double> runs;
  for (int run = 0; run < (sheet.effort().quick ? 5 : 50); ++run) {
    dispatch(x, 2 * kCount, 2 * kCount + 1);  // opens the command buffer
    auto start = Clock::now();
    for (std::int64_t i = 0; i < kCount; ++i) dispatch(x, i, kCount + i);
    runs.push_back(microseconds_since(start) / kCount);
    synchronize(sheet.device());
  }
  return {median(std::move(runs))};
}

/// Replayed, so that the host does not queue while the GPU works: queueing a dispatch may take longer than running
/// it.
Measured dispatch_one(const Sheet& sheet, bool chained) {
  const std::int64_t count = sheet.effort().quick ? 100 : 1000;
  auto program = capture(
      [&] {
        Tensor x = cells(sheet.device(), 2 * count);
        for (std::int64_t i = 0; i < count; ++i) chained ? dispatch(x, i, i + 1) : dispatch(x, i, count + i);
        return x;
      },
      {.device = sheet.device(), .name = "dispatches"});
  program();
  program();
  if (!program.captured()) throw LeftOut("ETNA_CAPTURE=0 turns captures off");
  const double seconds = seconds_a_call(sheet.device(), sheet.effort(), [&] { program(); });
  const std::int64_t barriers = program.report().barriers;
  return {seconds * 1e6 / static_cast<double>(count),
          fmt::format("{} of them behind {} barrier{}", count, barriers, barriers == 1 ? "" : "s")};
}

/// The queue submits when it has collected enough. The call that submits takes longer than the others by that much.
Measured submit_one(const Sheet& sheet) {
  constexpr std::int64_t kMost = 4096;
  const Tensor x = cells(sheet.device(), 2 * kMost);
  std::vector<double> submits, others;
  for (int run = 0; run < (sheet.effort().quick ? 5 : 30); ++run) {
    synchronize(sheet.device());
    const std::uint64_t before = gpu::queue_stats(sheet.device()).submits;
    for (std::int64_t i = 0; i < kMost; ++i) {
      auto start = Clock::now();
      dispatch(x, i, kMost + i);
      const double took = microseconds_since(start);
      const bool submitted = gpu::queue_stats(sheet.device()).submits > before;
      (submitted ? submits : others).push_back(took);
      if (submitted) break;
    }
  }
  synchronize(sheet.device());
  if (submits.empty()) throw LeftOut(fmt::format("{} dispatches were gathered without a submit", kMost));
  return {median(std::move(submits)) - median(std::move(others))};
}

Measured round_trip(const Sheet& sheet) {
  const Tensor x = cells(sheet.device(), 2);
  const double seconds = seconds_a_call(sheet.device(), sheet.effort(), [&] {
    dispatch(x, 0, 1);
    synchronize(sheet.device());
  });
  return {seconds * 1e6};
}

constexpr std::int64_t kAdds = 100;

auto captured_adds(Device device) {
  const Tensor a = zeros({256}, {f32, device}), b = ones({256}, {f32, device});
  auto adds = capture(
      [a, b] {
        Tensor y = a;
        for (std::int64_t i = 0; i < kAdds; ++i) y = add(y, b);
        return y;
      },
      {.device = device, .name = "adds"});
  adds();
  adds();
  if (!adds.captured()) throw LeftOut("ETNA_CAPTURE=0 turns captures off");
  return adds;
}

Measured replay_call(const Sheet& sheet) {
  auto adds = captured_adds(sheet.device());
  std::vector<double> calls;
  for (int run = 0; run < (sheet.effort().quick ? 3 : 30); ++run) {
    synchronize(sheet.device());
    // Few at a time: with a full queue the host would wait for the GPU.
    for (int i = 0; i < 4; ++i) {
      auto start = Clock::now();
      adds();
      calls.push_back(microseconds_since(start));
    }
  }
  synchronize(sheet.device());
  return {median(std::move(calls)), fmt::format("{} chained adds", kAdds)};
}

Measured replay_dispatch(const Sheet& sheet) {
  auto adds = captured_adds(sheet.device());
  const double seconds = seconds_a_call(sheet.device(), sheet.effort(), [&] { adds(); });
  const std::int64_t commands = adds.report().commands;
  return {seconds * 1e6 / static_cast<double>(commands), fmt::format("{} of them a replay", commands)};
}

}  // namespace

void bench_dispatches(Sheet& sheet) {
  sheet.add({.key = "queue_dispatch_us",
             .label = "queue a dispatch",
             .unit = "us",
             .meaning = "host time to check a dispatch for hazards and put it in the command buffer"},
            [&] { return queue_one(sheet); });
  sheet.add({.key = "dispatch_us",
             .label = "dispatch, no barrier",
             .unit = "us",
             .meaning = "GPU time of each of many one-workgroup dispatches that touch different memory"},
            [&] { return dispatch_one(sheet, false); });
  sheet.add(
      {.key = "dispatch_barrier_us",
       .label = "dispatch behind a barrier",
       .unit = "us",
       .meaning = "the same where each reads what the one before wrote: what a short op of a chain costs the GPU"},
      [&] { return dispatch_one(sheet, true); });
  sheet.add({.key = "submit_us",
             .label = "submit",
             .unit = "us",
             .meaning = "host time to end a command buffer and hand it to the driver"},
            [&] { return submit_one(sheet); });
  sheet.add({.key = "round_trip_us",
             .label = "round trip",
             .unit = "us",
             .meaning = "one dispatch queued, submitted and waited for"},
            [&] { return round_trip(sheet); });
}

void bench_replays(Sheet& sheet) {
  sheet.add({.key = "replay_host_us",
             .label = "replay a captured step",
             .unit = "us",
             .meaning = "host time of one call of a captured function, its submit included"},
            [&] { return replay_call(sheet); });
  sheet.add({.key = "replay_dispatch_us",
             .label = "dispatch of a replay",
             .unit = "us",
             .meaning = "a replay's time on the GPU over its dispatches, replays queued one behind another"},
            [&] { return replay_dispatch(sheet); });
}

}  // namespace etna::cli
