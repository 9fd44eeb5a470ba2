#include <etna/device/internal/vulkan/backend.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/vulkan/api/adapters.h>
#include <etna/device/internal/vulkan/api/injection.h>
#include <etna/device/internal/vulkan/commands/context.h>
#include <etna/device/internal/vulkan/commands/host_import.h>
#include <etna/device/internal/vulkan/commands/profile.h>
#include <etna/device/internal/vulkan/executable/command_buffers.h>
#include <etna/device/profile/profiler.h>

namespace etna::vulkan {
namespace {

constexpr std::uint32_t kMaxGroups = 65535;
constexpr std::size_t kMaxUpdateBytes = 65536;

void require_encodable(const Dispatch& d) {
  for (int axis = 0; axis < 3; ++axis) {
    if (std::uint32_t groups = d.groups[static_cast<std::size_t>(axis)]; groups > kMaxGroups) {
      throw DeviceError(fmt::format("{}: the kernel {} would be {} workgroups {}, a device takes {}; split the work",
                                    d.op, d.shader.name, groups,
                                    axis == 0   ? "wide"
                                    : axis == 1 ? "high"
                                                : "deep",
                                    kMaxGroups));
    }
  }
  if (const std::size_t bytes = d.arguments.bytes().size(); bytes > Pipelines::kPushBytes || bytes % 4 != 0) {
    throw DeviceError(
        fmt::format("{}: the kernel {} gets {} bytes of push constants; a multiple of 4 up to {} is possible", d.op,
                    d.shader.name, bytes, Pipelines::kPushBytes));
  }
}

void require_encodable(const CubinDispatch& d) {
  if (d.groups[1] > kMaxGroups || d.groups[2] > kMaxGroups || d.threads > 1024) {
    throw DeviceError(fmt::format("{}: the kernel {} would be {} x {} x {} groups of {} threads; split the work", d.op,
                                  d.kernel.name, d.groups[0], d.groups[1], d.groups[2], d.threads));
  }
  if (const std::size_t bytes = d.arguments.bytes().size(); bytes > CubinDispatch::kMostParameters || bytes % 4 != 0) {
    throw DeviceError(fmt::format("{}: the kernel {} gets {} bytes of parameters; a multiple of 4 up to {} is possible",
                                  d.op, d.kernel.name, bytes, CubinDispatch::kMostParameters));
  }
}

bool empty(const std::array<std::uint32_t, 3>& groups) { return groups[0] == 0 || groups[1] == 0 || groups[2] == 0; }

BufferSpan span_of(Context& context, const char* op, const Storage& storage, std::size_t offset, std::size_t bytes) {
  if (storage.device() != context.logical.device) {
    throw DeviceError(
        fmt::format("{}: the storage is on {}, not on {}", op, storage.device().str(), context.logical.device.str()));
  }
  return context.segments.find(storage.address() + offset, bytes);
}

class VulkanBackend final : public Backend, public Launcher {
 public:
  const char* name() const override { return "vulkan"; }
  const std::vector<AdapterInfo>& adapters() override { return vulkan::adapters(); }
  std::string why_no_adapters() override { return vulkan::why_no_adapters(); }
  std::string advice() override {
    if (why_no_adapters().starts_with("ETNA_VISIBLE_DEVICES")) return "unset it, or use --device cpu";
    const bool loader = why_no_adapters().find("no Vulkan loader") == std::string::npos;
    return fmt::format("install {}a driver (mesa-vulkan-drivers, or your GPU vendor's), or use --device cpu",
                       loader ? "" : "libvulkan1 and ");
  }

  CachingAllocator& allocator(Device device) override { return Context::of(device).allocator; }

  void upload(Device device, const void* source, std::uint64_t address, std::size_t bytes) override {
    if (bytes == 0) return;
    profile::Scope scope("upload", profile::Category::transfer, bytes);
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    context.staging.upload(static_cast<const std::byte*>(source), context.segments.find(address, bytes));
  }

  void download(Device device, std::uint64_t address, void* target, std::size_t bytes) override {
    if (bytes == 0) return;
    profile::Scope scope("download", profile::Category::transfer, bytes);
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    context.staging.download(context.segments.find(address, bytes), static_cast<std::byte*>(target));
    context.index_errors.check();
    context.queue.check_foreign();
  }

  std::shared_ptr<PendingBytes> download_later(Device device, std::uint64_t address, std::size_t bytes) override {
    return vulkan::download_later(device, address, bytes);
  }

  void copy(Device device, const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
            std::size_t bytes) override {
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    context.queue.copy("copy", span_of(context, "copy", from, from_offset, bytes),
                       span_of(context, "copy", to, to_offset, bytes));
  }

  StoragePtr import_host(Device device, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) override {
    return vulkan::import_host(device, bytes, std::move(owner));
  }
  bool is_imported(const Storage& storage) override { return vulkan::is_imported(storage); }

  void synchronize(Device device) override {
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    context.logical.require_alive();
    context.queue.finish();
    context.pipelines.cache().save(16);
    context.index_errors.check();
    context.queue.check_foreign();
  }

  Launcher* launcher() override { return this; }
  GraphForm graph_form() const override { return GraphForm::commands; }
  std::unique_ptr<Executable> compile(Graph& graph) override { return vulkan::compile(graph); }

  const Capabilities& capabilities(Device device) override { return Context::of(device).logical.adapter.capabilities; }

  void dispatch(Device device, const Dispatch& d) override {
    require_encodable(d);
    if (empty(d.groups)) return;
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    context.queue.dispatch(d, context.pipeline(d));
  }

  void dispatch(Device device, const CubinDispatch& d) override {
    require_encodable(d);
    if (empty(d.groups)) return;
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    context.logical.require_alive();
    context.queue.launch(d, context.cubins.get(d.kernel, d.op));
  }

  void prepare(Device device, const Dispatch& d) override {
    require_encodable(d);
    if (empty(d.groups)) return;
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    context.pipeline(d);
  }

  void prepare(Device device, const CubinDispatch& d) override {
    require_encodable(d);
    if (empty(d.groups)) return;
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    context.logical.require_alive();
    context.cubins.get(d.kernel, d.op);
  }

  void fill(Device device, Storage& to, std::size_t offset, std::size_t bytes, std::uint32_t word) override {
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    context.queue.fill(span_of(context, "fill", to, offset, bytes), word);
  }

  void update(Device device, Storage& to, std::size_t offset, const Arguments& rows) override {
    const std::span<const std::byte> bytes = rows.bytes();
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    for (std::size_t at = 0; at < bytes.size(); at += kMaxUpdateBytes) {
      const std::span<const std::byte> part = bytes.subspan(at, std::min(kMaxUpdateBytes, bytes.size() - at));
      context.queue.update(span_of(context, "update", to, offset + at, part.size()), part);
    }
  }

  void foreign(Device device, const gpu::ForeignCall& call) override {
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    context.queue.foreign(call);
  }
  gpu::ForeignStream* foreign_stream(Device device, std::string& why) override {
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    ForeignQueue* queue = context.queue.foreign_queue(ForeignPlace::cuda, why);
    return queue == nullptr ? nullptr : queue->stream();
  }

  bool maps_memory(Device) override { return true; }
  gpu::MappedMemory mapped_memory(Device device, std::size_t bytes) override {
    return vulkan::mapped_memory(device, bytes);
  }

  QueueStats stats(Device device) override {
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    return context.queue.stats();
  }

  Pointer index_errors(Device device, std::string_view op) override {
    Context& context = Context::of(device);
    std::lock_guard lock(context.mutex);
    return {context.index_errors.address(op), {}};
  }

  void begin_profile(const profile::Options& options) override { vulkan::begin_profile(options); }
  void finish_profile() override { vulkan::finish_profile(); }
  void take_profile(profile::Profile& profile) override { vulkan::take_profile(profile); }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<VulkanBackend>(); }

void injection::revive(Device device) {
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  context.logical.lost.clear();
}

}  // namespace etna::vulkan
