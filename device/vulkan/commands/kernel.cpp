#include <etna/device/vulkan/api/types.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/vulkan/api/injection.h>
#include <etna/device/vulkan/backend.h>
#include <etna/device/vulkan/diagnostics.h>
#include <etna/device/vulkan/commands/context.h>
#include <etna/device/vulkan/graph/recording.h>

/// The backend's two faces: what ops call (kernel.h) and what device/ calls (backend.h).
namespace etna::vulkan {
namespace {

constexpr std::uint32_t kMaxGroups = 65535;
constexpr std::size_t kMaxUpdateBytes = 65536;

void require_recordable(const Dispatch& d) {
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
  if (d.push.size() > Pipelines::kPushBytes || d.push.size() % 4 != 0) {
    throw DeviceError(
        fmt::format("{}: the kernel {} gets {} bytes of push constants; a multiple of 4 up to {} is possible", d.op,
                    d.shader.name, d.push.size(), Pipelines::kPushBytes));
  }
}

void require_recordable(const CubinDispatch& d) {
  if (d.groups[1] > kMaxGroups || d.groups[2] > kMaxGroups || d.threads > 1024) {
    throw DeviceError(fmt::format("{}: the kernel {} would be {} x {} x {} groups of {} threads; split the work", d.op,
                                  d.kernel.name, d.groups[0], d.groups[1], d.groups[2], d.threads));
  }
  if (d.parameters.size() > CubinDispatch::kMostParameters || d.parameters.size() % 4 != 0) {
    throw DeviceError(fmt::format("{}: the kernel {} gets {} bytes of parameters; a multiple of 4 up to {} is possible",
                                  d.op, d.kernel.name, d.parameters.size(), CubinDispatch::kMostParameters));
  }
}

BufferSpan span_of(Context& context, const char* op, const Storage& storage, std::size_t offset, std::size_t bytes) {
  if (storage.device() != context.logical.device) {
    throw DeviceError(
        fmt::format("{}: the storage is on {}, not on {}", op, storage.device().str(), context.logical.device.str()));
  }
  return context.segments.find(storage.address() + offset, bytes);
}

/// This thread's recording, where there is one. @throws CaptureError where it is for another device
Recording* recording_for(Device device, std::string_view op) {
  Recording* recording = Recording::current();
  if (recording != nullptr && recording->device() != device) {
    throw CaptureError(
        fmt::format("{}: works on {} while a step is captured on {}", op, device.str(), recording->device().str()));
  }
  return recording;
}

/// A tensor that a failed capture left behind has no bytes.
void require_bytes(std::string_view op, std::span<const Range> ranges) {
  for (const Range& r : ranges) {
    if (Recording::is_placeholder(r.address)) {
      throw CaptureError(fmt::format("{}: a tensor made in a capture that failed has no values; make it again", op));
    }
  }
}

/// The one copy would happen now, the replays' never.
void forbid_while_recording(const char* what) {
  if (const Recording* recording = Recording::current()) {
    throw CaptureError(fmt::format("{}: bytes cross between host and device while a step is captured on {}", what,
                                   recording->device().str()));
  }
}

void require_words(const char* op, std::size_t offset, std::size_t bytes) {
  if (offset % 4 != 0 || bytes % 4 != 0) {
    throw DeviceError(fmt::format("{}: offset {} and size {} must be multiples of 4 bytes", op, offset, bytes));
  }
}

}  // namespace

RecorderStats recorder_stats(Device device) {
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  return context.recorder.stats();
}

CachingAllocator& allocator(Device device) { return Context::of(device).allocator; }

void upload(Device device, const void* source, std::uint64_t address, std::size_t bytes) {
  if (bytes == 0) return;
  forbid_while_recording("upload");
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  context.staging.upload(static_cast<const std::byte*>(source), context.segments.find(address, bytes));
}

void download(Device device, std::uint64_t address, void* target, std::size_t bytes) {
  if (bytes == 0) return;
  forbid_while_recording("download");
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  context.staging.download(context.segments.find(address, bytes), static_cast<std::byte*>(target));
}

void synchronize(Device device) {
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  context.logical.require_alive();
  context.recorder.finish();
  context.pipelines.cache().save(16);
}

void injection::revive(Device device) {
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  context.logical.lost.clear();
}

}  // namespace etna::vulkan

namespace etna::gpu {

using namespace vulkan;

void record(Device device, const Dispatch& given) {
  Dispatch dispatch = given;
  if (given.arguments != nullptr) {
    dispatch.push = given.arguments->bytes();
    dispatch.reads = given.arguments->reads();
    dispatch.writes = given.arguments->writes();
  }
  require_recordable(dispatch);
  if (dispatch.groups[0] == 0 || dispatch.groups[1] == 0 || dispatch.groups[2] == 0) return;
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  context.logical.require_alive();
  bool made = false;
  VkPipeline pipeline = context.pipelines.get(dispatch.shader, dispatch.spec, dispatch.op, made);
  if (made) context.recorder.count_pipeline();
  if (Recording* recording = recording_for(device, dispatch.op)) {
    recording->dispatch(dispatch, pipeline);
    return;
  }
  require_bytes(dispatch.op, dispatch.reads);
  require_bytes(dispatch.op, dispatch.writes);
  context.recorder.dispatch(dispatch, pipeline, context.pipelines.layout());
}

void record(Device device, const CubinDispatch& given) {
  CubinDispatch dispatch = given;
  if (given.arguments != nullptr) {
    dispatch.parameters = given.arguments->bytes();
    dispatch.reads = given.arguments->reads();
    dispatch.writes = given.arguments->writes();
  }
  require_recordable(dispatch);
  if (dispatch.groups[0] == 0 || dispatch.groups[1] == 0 || dispatch.groups[2] == 0) return;
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  context.logical.require_alive();
  VkCuFunctionNVX function = context.cubins.get(dispatch.kernel, dispatch.op);
  if (Recording* recording = recording_for(device, dispatch.op)) {
    recording->launch(dispatch, function);
    return;
  }
  require_bytes(dispatch.op, dispatch.reads);
  require_bytes(dispatch.op, dispatch.writes);
  context.recorder.launch(dispatch, function);
}

void record_copy(Device device, const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
                 std::size_t bytes) {
  if (bytes == 0) return;
  if (Recording* recording = recording_for(device, "copy")) {
    recording->copy(from.address() + from_offset, to.address() + to_offset, bytes);
    return;
  }
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  context.recorder.copy("copy", span_of(context, "copy", from, from_offset, bytes),
                        span_of(context, "copy", to, to_offset, bytes));
}

void record_fill(Device device, Storage& to, std::size_t offset, std::size_t bytes, std::uint32_t word) {
  require_words("fill", offset, bytes);
  if (bytes == 0) return;
  if (Recording* recording = recording_for(device, "fill")) {
    recording->fill(to.address() + offset, bytes, word);
    return;
  }
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  context.recorder.fill(span_of(context, "fill", to, offset, bytes), word);
}

void record_update(Device device, Storage& to, std::size_t offset, std::span<const std::byte> bytes) {
  require_words("update", offset, bytes.size());
  if (bytes.size() > kMaxUpdateBytes) {
    throw DeviceError(fmt::format("update: {} bytes in a command buffer, at most {} fit; use upload()", bytes.size(),
                                  kMaxUpdateBytes));
  }
  if (bytes.empty()) return;
  if (Recording* recording = recording_for(device, "update")) {
    recording->constant(to.address() + offset, bytes);
    return;
  }
  Context& context = Context::of(device);
  std::lock_guard lock(context.mutex);
  context.recorder.update(span_of(context, "update", to, offset, bytes.size()), bytes.data());
}

void record_update(Device device, Storage& to, std::size_t offset, const Arguments& rows) {
  for (std::size_t at = 0; at < rows.bytes().size(); at += kMaxUpdateBytes) {
    record_update(device, to, offset + at,
                  rows.bytes().subspan(at, std::min(kMaxUpdateBytes, rows.bytes().size() - at)));
  }
}

const Capabilities& capabilities(Device device) { return Context::of(device).logical.adapter.capabilities; }

}  // namespace etna::gpu
