#include <etna/device/internal/backend.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/device_queue.h>
#include <etna/device/internal/foreign_work.h>

namespace etna {
namespace {

/// Bytes read immediately: for backends whose memory the host may wait for.
struct ReadBytes final : public PendingBytes {
  bool ready() override { return true; }
  const std::byte* get() override { return bytes.data(); }

  std::array<std::byte, 64> bytes{};
};

constexpr std::size_t kMostBackends = 8;

/// Never destroyed: storages in static objects may outlive any order we could choose.
struct Registry {
  std::array<Backend*, kMostBackends> all{};
  std::atomic<std::size_t> count{0};
  std::mutex mutex;

  Registry() {
    for (std::unique_ptr<Backend>& made : built_in_backends()) all[count++] = made.release();
  }
};

Registry& registry() {
  static auto* made = new Registry;
  return *made;
}

}  // namespace

std::shared_ptr<PendingBytes> Backend::download_later(Device device, std::uint64_t address, std::size_t bytes) {
  auto read = std::make_shared<ReadBytes>();
  download(device, address, read->bytes.data(), bytes);
  return read;
}

std::unique_ptr<Executable> Backend::compile(Graph&) {
  throw DeviceError(fmt::format("{}: compiles no graphs", name()));
}

void gpu::Launcher::foreign(Device device, const ForeignCall& call) {
  throw DeviceError(fmt::format("{}: {} takes no work of other APIs", call.op, device.str()));
}
gpu::ForeignStream* gpu::Launcher::foreign_stream(Device device, std::string& why) {
  why = fmt::format("{} takes no work of other APIs", device.str());
  return nullptr;
}
void gpu::ForeignWork::queue(void*, std::span<const std::uint64_t>, std::span<const std::uint64_t>) {}
std::function<bool()> gpu::ForeignWork::begin() {
  return [] { return true; };
}
std::function<bool()> gpu::ForeignWork::prepare() {
  return [this, step = std::function<bool()>()]() mutable {
    if (!step) step = begin();
    return step();
  };
}
gpu::MappedMemory gpu::Launcher::mapped_memory(Device device, std::size_t) {
  throw DeviceError(fmt::format("{} has no memory that it shares with the host", device.str()));
}
Backend& backend(DeviceType type) {
  Registry& r = registry();
  const auto at = static_cast<std::size_t>(type);
  if (at >= r.count.load(std::memory_order_acquire)) {
    throw DeviceError(fmt::format("a device of kind {} is used, but no such backend was registered", at));
  }
  return *r.all[at];
}

std::span<Backend* const> backends() {
  Registry& r = registry();
  return {r.all.data(), r.count.load(std::memory_order_acquire)};
}

DeviceType register_backend(std::unique_ptr<Backend> made) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const std::size_t at = r.count;
  for (Backend* other : backends()) {
    if (std::strcmp(other->name(), made->name()) == 0) {
      throw DeviceError(fmt::format("a backend '{}' is registered already", made->name()));
    }
  }
  if (at == kMostBackends) throw DeviceError(fmt::format("more than {} backends were registered", kMostBackends));
  r.all[at] = made.release();
  r.count.store(at + 1, std::memory_order_release);
  return static_cast<DeviceType>(at);
}

std::vector<DeviceQueue> DeviceQueue::of_backends() {
  std::vector<DeviceQueue> all;
  for (std::size_t type = 0; type < backends().size(); ++type) all.emplace_back(static_cast<DeviceType>(type));
  return all;
}

gpu::Launcher& gpu::launcher(Device device) {
  if (Launcher* found = backend(device).launcher()) return *found;
  throw DeviceError(fmt::format("{}: runs none of the GPU kernels of ops", device.str()));
}

std::string gpu::IndexReport::message(std::string_view op, Device device) const {
  const auto index = static_cast<std::int64_t>(std::uint64_t{high} << 32 | low);
  return fmt::format("{}: index {} at position {} is outside [0, {}); found by a kernel that ran on {} earlier", op,
                     index, position - 1, limit, device.str());
}

}  // namespace etna
