#include <etna/device/internal/vulkan/commands/profile.h>

#include <exception>
#include <mutex>
#include <utility>

#include <etna/device/internal/vulkan/commands/context.h>
#include <etna/device/profile/profiler.h>

/// Profiles the devices in use.
namespace etna::vulkan {
namespace {

/// Of the profile being taken, for devices first used during it. Guarded by the profiler: written before any device
/// begins.
profile::Options options;

/// Waits until the device is idle. Errors are ignored here: whoever uses the device next gets the same error.
void settle(Context& context) {
  try {
    if (context.logical.lost.empty()) context.queue.finish();
  } catch (const std::exception&) {
    // See above.
  }
}

}  // namespace

void begin_profile(const profile::Options& asked) {
  options = asked;
  for (Context* context : Context::all()) {
    std::lock_guard lock(context->mutex);
    settle(*context);
    context->queue.timestamps().begin(options, context->queue.stats());
  }
}

void join_profile(Context& context) {
  if (!profile::taking()) return;
  std::lock_guard lock(context.mutex);
  context.queue.timestamps().begin(options, context.queue.stats());
}

void finish_profile() {
  for (Context* context : Context::all()) {
    std::lock_guard lock(context->mutex);
    settle(*context);
  }
}

void take_profile(profile::Profile& profile) {
  for (Context* context : Context::all()) {
    std::lock_guard lock(context->mutex);
    Timestamps& timestamps = context->queue.timestamps();
    if (!timestamps.begun()) continue;
    settle(*context);
    profile.gpus.push_back(timestamps.take(context->queue.stats()));
    profile.dropped += timestamps.dropped();
  }
}

}  // namespace etna::vulkan
