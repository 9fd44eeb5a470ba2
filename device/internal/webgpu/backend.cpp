#include <etna/device/internal/webgpu/backend.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/device/internal/webgpu/fused_kernel.h>
#include <etna/device/internal/webgpu/graph_programs.h>
#include <etna/device/internal/webgpu/heap.h>
#include <etna/device/internal/webgpu/queue.h>
#include <etna/device/profile/profiler.h>

namespace etna::webgpu {
namespace {

constexpr std::uint32_t kMaxGroups = 65535;

/// What adapters guarantee is too little for some kernels, so the adapter's own limits count.
struct Adapter {
  AdapterInfo info;
  gpu::Capabilities capabilities;
};

Adapter read_adapter() {
  const auto facts = nlohmann::json::parse(javascript::facts());
  // Addresses have 32 bits.
  const std::uint64_t most = (std::uint64_t{1} << 32) - 65536;
  const std::uint64_t heap = std::min(facts.at("heap_bytes").get<std::uint64_t>(), most);
  // Kernels take another word for a value that all threads of a workgroup share (ETNA_UNIFORM).
  const auto shared = facts.at("shared_bytes").get<std::uint32_t>() - 4;
  const auto threads = facts.at("workgroup_size").get<std::uint32_t>();
  const bool packed_dot = facts.at("packed_dot").get<bool>();
  Adapter adapter;
  adapter.info.name = facts.at("name").get<std::string>();
  adapter.info.kind = facts.at("kind").get<std::string>();
  adapter.info.driver = facts.at("driver").get<std::string>();
  adapter.info.memory_bytes = heap;
  if (packed_dot) adapter.info.features.emplace_back("packed_dot");
  adapter.info.limits = {fmt::format("shared memory {}", readable_bytes(shared)), fmt::format("workgroup {}", threads),
                         fmt::format("heap {}", readable_bytes(heap))};
  gpu::Capabilities& can = adapter.capabilities;
  can.packed_dot = packed_dot;
  can.subgroup_size = 32;  // kernels take 32 threads and barriers where they would take a subgroup (docs/webgpu.md)
  can.shared_memory_bytes = shared;
  can.max_workgroup_size = threads;
  can.max_subgroups = threads / 32;
  can.compute_units = 16;  // no adapter tells
  return adapter;
}

/// The device, once it is used.
struct Gpu {
  Gpu(Device device, const Adapter& adapter) : heap(adapter.info.memory_bytes), allocator(device, heap) {}
  Heap heap;
  CachingAllocator allocator;
  Queue queue;
};

void require_encodable(const gpu::Dispatch& d) {
  for (std::uint32_t groups : d.groups) {
    if (groups > kMaxGroups) {
      throw DeviceError(fmt::format("{}: the kernel {} would be {} workgroups wide, a device takes {}; split the work",
                                    d.op, d.shader.name, groups, kMaxGroups));
    }
  }
  if (const std::size_t bytes = d.arguments.bytes().size(); bytes > Batch::kArgumentBytes || bytes % 4 != 0) {
    throw DeviceError(fmt::format("{}: the kernel {} gets {} bytes of arguments; a multiple of 4 up to {} is possible",
                                  d.op, d.shader.name, bytes, Batch::kArgumentBytes));
  }
}

bool empty(const std::array<std::uint32_t, 3>& groups) { return groups[0] == 0 || groups[1] == 0 || groups[2] == 0; }

/// Reads queued and not yet wanted.
class Read final : public PendingBytes {
 public:
  Read(Queue& queue, std::uint64_t address, std::size_t bytes)
      : queue_(queue), address_(address), read_(queue.start_read(address, bytes)), data_(bytes) {}
  ~Read() override {
    if (read_) javascript::drop_read(*read_);
  }
  bool ready() override { return !read_ || javascript::is_read(*read_); }
  const std::byte* get() override {
    if (read_) {
      const std::uint32_t read = *read_;
      read_.reset();
      queue_.finish_read(read, address_, data_);
    }
    return data_.data();
  }

 private:
  Queue& queue_;
  std::uint64_t address_;
  std::optional<std::uint32_t> read_;
  std::vector<std::byte> data_;
};

class WebGpuBackend final : public Backend, public gpu::Launcher {
 public:
  const char* name() const override { return "webgpu"; }
  const std::vector<AdapterInfo>& adapters() override {
    static const std::vector<AdapterInfo> none;
    if (!javascript::is_open()) return none;
    if (found_.empty()) {
      adapter_ = read_adapter();
      adapter_.info.device = Device::parse("webgpu:0");
      found_ = {adapter_.info};
    }
    return found_;
  }
  std::string why_no_adapters() override { return "JavaScript opened no WebGPU device for this module"; }
  std::string advice() override {
    return "use a browser that has WebGPU and JavaScript Promise Integration, or use --device cpu";
  }

  CachingAllocator& allocator(Device device) override { return gpu(device).allocator; }
  void upload(Device device, const void* source, std::uint64_t address, std::size_t bytes) override {
    profile::Scope scope("upload", profile::Category::transfer, bytes);
    gpu(device).queue.upload(address, {static_cast<const std::byte*>(source), bytes});
  }
  void download(Device device, std::uint64_t address, void* target, std::size_t bytes) override {
    if (bytes == 0) return;
    profile::Scope scope("download", profile::Category::transfer, bytes);
    gpu(device).queue.download(address, {static_cast<std::byte*>(target), bytes});
  }
  void copy(Device device, const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
            std::size_t bytes) override {
    require_here("copy", from);
    require_here("copy", to);
    gpu(device).queue.copy(from.address() + from_offset, to.address() + to_offset, bytes);
  }
  std::shared_ptr<PendingBytes> download_later(Device device, std::uint64_t address, std::size_t bytes) override {
    if (bytes > kMostBytesLater)
      throw DeviceError(fmt::format("read_later: {} bytes, at most {} fit", bytes, kMostBytesLater));
    return std::make_shared<Read>(gpu(device).queue, address, bytes);
  }
  void synchronize(Device device) override { gpu(device).queue.finish(); }

  gpu::Launcher* launcher() override { return this; }
  GraphForm graph_form() const override { return GraphForm::commands; }
  std::unique_ptr<Executable> compile(Graph& graph) override {
    Queue& queue = gpu(graph.device()).queue;
    graph.plan({.kernels = WgslWriter::enabled() ? &fused_kernels_ : nullptr});
    return std::make_unique<GraphPrograms>(queue, graph);
  }

  const gpu::Capabilities& capabilities(Device device) override {
    require_there(device);
    return adapter_.capabilities;
  }
  void dispatch(Device device, const gpu::Dispatch& d) override {
    require_encodable(d);
    if (!empty(d.groups)) gpu(device).queue.dispatch(d);
  }
  void prepare(Device device, const gpu::Dispatch& d) override {
    require_encodable(d);
    if (!empty(d.groups)) gpu(device).queue.pipeline(d.shader.name, d.spec, d.op);
  }
  void dispatch(Device, const gpu::CubinDispatch& d) override { refuse(d); }
  void prepare(Device, const gpu::CubinDispatch& d) override { refuse(d); }
  void fill(Device device, Storage& to, std::size_t offset, std::size_t bytes, std::uint32_t word) override {
    require_here("fill", to);
    gpu(device).queue.fill(to.address() + offset, bytes, word);
  }
  void update(Device device, Storage& to, std::size_t offset, const Arguments& rows) override {
    require_here("update", to);
    gpu(device).queue.upload(to.address() + offset, rows.bytes());
  }
  gpu::QueueStats stats(Device device) override { return gpu(device).queue.stats(); }
  Pointer index_errors(Device device, std::string_view op) override {
    return {gpu(device).queue.index_errors().address(op), {}};
  }

 private:
  void require_there(Device device) {
    if (adapters().empty()) throw DeviceError(fmt::format("{}: {}; {}", device.str(), why_no_adapters(), advice()));
    if (device.index > 0) throw DeviceError(fmt::format("{}: there is one device, webgpu:0", device.str()));
  }
  Gpu& gpu(Device device) {
    require_there(device);
    if (!gpu_) gpu_.emplace(device, adapter_);
    return *gpu_;
  }
  void require_here(const char* op, const Storage& storage) {
    if (storage.device() != adapter_.info.device) {
      throw DeviceError(fmt::format("{}: the storage is on {}, not on webgpu:0", op, storage.device().str()));
    }
  }
  [[noreturn]] void refuse(const gpu::CubinDispatch& d) {
    throw DeviceError(fmt::format("{}: the kernel {} is machine code, which WebGPU does not run", d.op, d.kernel.name));
  }

  Adapter adapter_;
  std::vector<AdapterInfo> found_;
  std::optional<Gpu> gpu_;
  WgslWriter fused_kernels_;
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<WebGpuBackend>(); }

}  // namespace etna::webgpu
