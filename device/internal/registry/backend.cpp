#include <etna/device/internal/backend.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/cpu/backend.h>
#include <etna/device/internal/graph/graph.h>
#include <etna/device/internal/pending.h>
#ifdef ETNA_HAS_VULKAN
#include <etna/device/internal/vulkan/backend.h>
#endif
#ifdef ETNA_HAS_WEBGPU
#include <etna/device/internal/webgpu/backend.h>
#endif

namespace etna {
namespace {

/// Bytes read immediately: for backends whose memory the host may wait for.
class ReadBytes final : public PendingBytes {
 public:
  ReadBytes(Backend& backend, Device device, std::uint64_t address, std::size_t bytes) {
    backend.download(device, address, bytes_.data(), bytes);
  }
  bool ready() override { return true; }
  const std::byte* get() override { return bytes_.data(); }

 private:
  std::array<std::byte, 64> bytes_{};
};

#ifndef ETNA_HAS_VULKAN
/// Stands in for Vulkan in a build without it.
class NoVulkan final : public Backend {
 public:
  const char* name() const override { return "vulkan"; }
  const std::vector<AdapterInfo>& adapters() override {
    static const std::vector<AdapterInfo> none;
    return none;
  }
  std::string why_no_adapters() override { return "this build is without Vulkan (ETNA_VULKAN=OFF)"; }
  std::string advice() override { return "build with -DETNA_VULKAN=ON, or use --device cpu"; }
  CachingAllocator& allocator(Device device) override { fail(device); }
  void upload(Device device, const void*, std::uint64_t, std::size_t) override { fail(device); }
  void download(Device device, std::uint64_t, void*, std::size_t) override { fail(device); }
  void copy(Device device, const Storage&, std::size_t, Storage&, std::size_t, std::size_t) override { fail(device); }

 private:
  [[noreturn]] void fail(Device device) {
    throw DeviceError(fmt::format("{}: {}; {}", device.str(), why_no_adapters(), advice()));
  }
};
#endif

constexpr std::size_t kMostBackends = 8;

/// Never destroyed: storages in static objects may outlive any order we could choose.
struct Registry {
  std::array<Backend*, kMostBackends> all{};
  std::atomic<std::size_t> count{0};
  std::mutex mutex;

  Registry() {
    all[static_cast<std::size_t>(DeviceType::cpu)] = cpu::make_backend().release();
#ifdef ETNA_HAS_VULKAN
    all[static_cast<std::size_t>(DeviceType::vulkan)] = vulkan::make_backend().release();
#else
    all[static_cast<std::size_t>(DeviceType::vulkan)] = new NoVulkan;
#endif
    count = 2;
#ifdef ETNA_HAS_WEBGPU
    all[count++] = webgpu::make_backend().release();
#endif
  }
};

Registry& registry() {
  static auto* made = new Registry;
  return *made;
}

}  // namespace

std::shared_ptr<PendingBytes> Backend::download_later(Device device, std::uint64_t address, std::size_t bytes) {
  return std::make_shared<ReadBytes>(*this, device, address, bytes);
}

std::unique_ptr<Executable> Backend::compile(Graph& graph) {
  throw DeviceError(fmt::format("{}: compiles no graphs", graph.device().str()));
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

namespace gpu {
namespace {

Launcher& launcher(Device device) {
  if (Launcher* found = backend(device).launcher()) return *found;
  throw DeviceError(fmt::format("{}: runs none of the GPU kernels of ops", device.str()));
}

/// The graph that takes this thread's commands, if any. @throws CaptureError if it is for another device
Graph* graph_for(Device device, std::string_view op) {
  Graph* graph = Graph::current();
  if (graph != nullptr && graph->device() != device) {
    throw CaptureError(
        fmt::format("{}: works on {} while a step is captured on {}", op, device.str(), graph->device().str()));
  }
  return graph;
}

/// Throws for a tensor that a failed capture left behind: it has no bytes.
void require_memory(std::string_view op, const Arguments& arguments) {
  for (std::span<const MemoryRange> ranges : {arguments.reads(), arguments.writes()}) {
    for (const MemoryRange& r : ranges) {
      if (graph::is_placeholder(r.address)) {
        throw CaptureError(fmt::format("{}: a tensor made in a capture that failed has no values; make it again", op));
      }
    }
  }
}

void require_words(const char* op, std::size_t offset, std::size_t bytes) {
  if (offset % 4 != 0 || bytes % 4 != 0) {
    throw DeviceError(fmt::format("{}: offset {} and size {} must be multiples of 4 bytes", op, offset, bytes));
  }
}

template <typename AnyDispatch>
void record_any(Device device, const AnyDispatch& dispatch) {
  finish_pending();
  if (Graph* graph = graph_for(device, dispatch.op)) {
    launcher(device).prepare(device, dispatch);
    graph->dispatch(dispatch);
  } else {
    require_memory(dispatch.op, dispatch.arguments);
    launcher(device).dispatch(device, dispatch);
  }
}

}  // namespace

std::string IndexReport::message(std::string_view op, Device device) const {
  const auto index = static_cast<std::int64_t>(std::uint64_t{high} << 32 | low);
  return fmt::format("{}: index {} at position {} is outside [0, {}); found by a kernel that ran on {} earlier", op,
                     index, position - 1, limit, device.str());
}

bool runs_kernels(Device device) { return backend(device).launcher() != nullptr; }
const Capabilities& capabilities(Device device) { return launcher(device).capabilities(device); }
Pointer index_errors(Device device, std::string_view op) { return launcher(device).index_errors(device, op); }
void record(Device device, const Dispatch& dispatch) { record_any(device, dispatch); }
void record(Device device, const CubinDispatch& dispatch) { record_any(device, dispatch); }
void record_copy(Device device, const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
                 std::size_t bytes) {
  if (bytes == 0) return;
  finish_pending();
  if (Graph* graph = graph_for(device, "copy")) {
    graph->copy(from.address() + from_offset, to.address() + to_offset, bytes);
  } else {
    backend(device).copy(device, from, from_offset, to, to_offset, bytes);
  }
}
void record_fill(Device device, Storage& to, std::size_t offset, std::size_t bytes, std::uint32_t word) {
  require_words("fill", offset, bytes);
  if (bytes == 0) return;
  finish_pending();
  if (Graph* graph = graph_for(device, "fill")) {
    graph->fill(to.address() + offset, bytes, word);
  } else {
    launcher(device).fill(device, to, offset, bytes, word);
  }
}
void record_update(Device device, Storage& to, std::size_t offset, const Arguments& rows) {
  require_words("update", offset, rows.bytes().size());
  finish_pending();
  if (Graph* graph = graph_for(device, "update")) {
    graph->storages().set_constant(to.address() + offset, rows);
  } else {
    launcher(device).update(device, to, offset, rows);
  }
}
void record_update(Device device, Storage& to, std::size_t offset, std::span<const std::byte> bytes) {
  Arguments numbers;
  numbers.bytes(bytes);
  record_update(device, to, offset, numbers);
}
QueueStats queue_stats(Device device) {
  finish_pending();
  Launcher* found = backend(device).launcher();
  return found != nullptr ? found->stats(device) : QueueStats{};
}

}  // namespace gpu
}  // namespace etna
