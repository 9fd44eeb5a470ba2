#include <etna/device/internal/vulkan/commands/context.h>

#include <array>
#include <atomic>
#include <cstdlib>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/vulkan/api/adapters.h>
#include <etna/device/internal/vulkan/pipelines/push_block.h>

namespace etna::vulkan {
namespace {

std::array<std::atomic<Context*>, 256> contexts{};
std::mutex making;

/// Drivers shut down their threads after this; with work still running, more than one of them has crashed or hung. Work
/// that was never submitted is dropped: nobody can ask for its results any more.
void leave() {
  CachingAllocator::forget_cache_limits();
  for (auto& slot : contexts) {
    Context* context = slot.load();
    if (!context || !context->logical.lost.empty()) continue;
    std::unique_lock lock(context->mutex, std::try_to_lock);
    if (!lock) continue;
    try {
      context->queue.leave();
      context->pipelines.leave();
      context->pipelines.cache().save();
    } catch (const std::exception&) {
      // At exit there is nobody to report to.
    }
  }
}

Context* make(Device device) {
  if (!device.is_vulkan()) throw DeviceError(fmt::format("{} is not a Vulkan device", device.str()));
  const std::vector<Adapter>& found = all_adapters();
  if (device.index >= found.size()) {
    throw DeviceError(fmt::format(
        "{} does not exist: {}", device.str(),
        found.empty() ? why_no_adapters()
                      : fmt::format("{} Vulkan adapter{} found", found.size(), found.size() == 1 ? " was" : "s were")));
  }
  const Adapter& adapter = found[device.index];
  if (!adapter.info.rejected.empty()) {
    throw DeviceError(
        fmt::format("{} ({}) cannot be used: {}", device.str(), adapter.info.name, adapter.info.rejected));
  }
  return new Context(adapter, device);
}

}  // namespace

Context::Context(const Adapter& adapter, Device device)
    : logical(adapter, device),
      pipelines(logical),
      index_errors(logical),
      queue(logical, pipelines, index_errors, segments),
      segments(
          logical, [this] { queue.finish(); }, mutex),
      allocator(device, segments),
      cubins(logical),
      staging(logical, queue, pipelines),
      readback(logical, queue) {}

Pipeline& Context::pipeline(const Shader& shader, std::span<const std::uint32_t> spec, std::string_view op) {
  logical.require_alive();
  bool made = false;
  Pipeline& found = pipelines.get(shader, spec, op, made);
  if (made) queue.count_pipeline();
  return found;
}

Pipeline& Context::pipeline(const Dispatch& d) {
  logical.require_alive();
  bool made = false;
  Pipeline& found = pipelines.get(d.shader, d.spec, d.op, made);
  if (!made) return found;
  queue.count_pipeline();
  if (!strict()) return found;
  if (const std::string wrong = wrong_arguments(d.shader.words, d.arguments); !wrong.empty())
    throw Error(fmt::format("{}: the kernel {} gets {}", d.op, d.shader.name, wrong));
  return found;
}

Context& Context::of(Device device) {
  std::atomic<Context*>& slot = contexts[device.index];
  Context* context = slot.load(std::memory_order_acquire);
  if (context && device.is_vulkan()) return *context;
  std::lock_guard lock(making);
  context = device.is_vulkan() ? slot.load() : nullptr;
  if (!context) {
    context = make(device);
    join_profile(*context);
    slot.store(context, std::memory_order_release);
    leave_at_exit();
  }
  return *context;
}

std::vector<Context*> Context::all() {
  std::vector<Context*> made;
  for (auto& slot : contexts) {
    if (Context* context = slot.load(std::memory_order_acquire)) made.push_back(context);
  }
  return made;
}

// Exit handlers run in reverse order of registration, and ours must run before the driver's. A driver may register some
// only with its first work (a compiler's, in a software rasterizer), so CommandQueue registers again after that.
void leave_at_exit() { static_cast<void>(std::atexit(leave)); }

}  // namespace etna::vulkan
