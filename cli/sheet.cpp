#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <string_view>

#include <etna/device/kernel.h>

#include "bench.h"

namespace etna::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> conditions_of(const AdapterInfo& adapter, const Effort& effort) {
  std::vector<std::string> conditions;
  if (effort.quick) conditions.push_back("--quick: small sizes and counts, the figures mean little");
  if (adapter.device.is_cpu()) return conditions;
  if (adapter.kind == "software") conditions.push_back("a software rasterizer: says nothing of a GPU");
  if (const char* validation = std::getenv("ETNA_VALIDATION"); validation && std::string_view(validation) == "1") {
    conditions.push_back("ETNA_VALIDATION=1: every call is checked, and slower");
  }
  if (const char* barriers = std::getenv("ETNA_BARRIERS"); barriers && std::string_view(barriers) == "all") {
    conditions.push_back("ETNA_BARRIERS=all: a barrier behind every dispatch");
  }
  return conditions;
}

}  // namespace

Sheet::Sheet(AdapterInfo adapter, Effort effort)
    : adapter_(std::move(adapter)), effort_(effort), conditions_(conditions_of(adapter_, effort)) {}

void Sheet::add(Figure figure, const std::function<Measured()>& measure) {
  try {
    Measured measured = measure();
    figure.value = measured.value;
    figure.note = std::move(measured.note);
  } catch (const DeviceLost&) {
    throw;
  } catch (const LeftOut& reason) {
    figure.note = std::string("left out: ") + reason.what();
  } catch (const OutOfMemory& error) {
    figure.note = std::string("left out: ") + error.what();
  } catch (const std::bad_alloc&) {
    figure.note = "left out: the host has no memory for it";
  } catch (const Error& error) {
    figure.note = std::string("FAILED: ") + error.what();
    failed_ = true;
  }
  figures_.push_back(std::move(figure));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 0 : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

double seconds_a_call(Device device, const Effort& effort, const std::function<void()>& work) {
  auto seconds_of = [&](std::int64_t calls) {
    auto start = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) work();
    synchronize(device);
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  // The first call builds pipelines and fills caches.
  seconds_of(1);
  std::int64_t calls = 1;
  double seconds = seconds_of(calls);
  // A short run consists mostly of its wait, so the call count it suggests is too small: repeat a few times.
  while (seconds < effort.seconds / 2 && calls < 1'000'000) {
    calls *= std::clamp<std::int64_t>(static_cast<std::int64_t>(effort.seconds / seconds), 2, 10);
    seconds = seconds_of(calls);
  }
  std::vector<double> runs{seconds};
  while (runs.size() < static_cast<std::size_t>(effort.repeats)) runs.push_back(seconds_of(calls));
  return median(std::move(runs)) / static_cast<double>(calls);
}

}  // namespace etna::cli
