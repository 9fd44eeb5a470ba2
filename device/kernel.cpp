#include <etna/device/kernel.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/command_sink.h>
#include <etna/device/internal/counting.h>
#include <etna/device/internal/device_queue.h>
#include <etna/device/internal/placeholder.h>

namespace etna::gpu {
namespace {

thread_local CommandSink* current_sink = nullptr;
std::atomic<bool> sharing{false};

/// What takes this thread's commands, if not the queue. @throws CaptureError if it is for another device
CommandSink* sink_for(Device device, std::string_view op) {
  CommandSink* sink = CommandSink::current();
  if (sink != nullptr && sink->device() != device) {
    throw CaptureError(
        fmt::format("{}: works on {} while a step is captured on {}", op, device.str(), sink->device().str()));
  }
  return sink;
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
void enqueue_any(Device device, const AnyDispatch& dispatch) {
  const DeviceQueue queue(device);
  if (CommandSink* sink = sink_for(device, dispatch.op)) {
    launcher(device).prepare(device, dispatch);
    sink->dispatch(dispatch);
  } else {
    require_memory(dispatch.op, dispatch.arguments);
    queue.dispatch(dispatch);
    if (counting::on()) counting::ran(counting::row(device, dispatch));
  }
}

void count_bytes(Device device, std::string_view command) {
  if (counting::on()) counting::ran(counting::row_of_bytes(device, command));
}

}  // namespace

CommandSink* CommandSink::current() { return current_sink; }
CommandSink* CommandSink::set_current(CommandSink* sink) { return std::exchange(current_sink, sink); }

bool Capabilities::has(const MatrixShape& shape) const {
  return std::find(matrix_shapes.begin(), matrix_shapes.end(), shape) != matrix_shapes.end();
}

bool runs_kernels(Device device) { return backend(device).launcher() != nullptr; }
const Capabilities& capabilities(Device device) { return launcher(device).capabilities(device); }
Pointer index_errors(Device device, std::string_view op) { return launcher(device).index_errors(device, op); }
void enqueue(Device device, const Dispatch& dispatch) { enqueue_any(device, dispatch); }
void enqueue(Device device, const CubinDispatch& dispatch) { enqueue_any(device, dispatch); }
void enqueue_copy(Device device, const Storage& from, std::size_t from_offset, Storage& to, std::size_t to_offset,
                  std::size_t bytes) {
  if (bytes == 0) return;
  const DeviceQueue queue(device);
  if (CommandSink* sink = sink_for(device, "copy")) {
    sink->copy(from.address() + from_offset, to.address() + to_offset, bytes);
  } else {
    queue.copy(from, from_offset, to, to_offset, bytes);
    count_bytes(device, "copy");
  }
}
void enqueue_fill(Device device, Storage& to, std::size_t offset, std::size_t bytes, std::uint32_t word) {
  require_words("fill", offset, bytes);
  if (bytes == 0) return;
  const DeviceQueue queue(device);
  if (CommandSink* sink = sink_for(device, "fill")) {
    sink->fill(to.address() + offset, bytes, word);
  } else {
    queue.fill(to, offset, bytes, word);
    count_bytes(device, "fill");
  }
}
void enqueue_update(Device device, Storage& to, std::size_t offset, const Arguments& rows) {
  require_words("update", offset, rows.bytes().size());
  const DeviceQueue queue(device);
  if (CommandSink* sink = sink_for(device, "update")) {
    sink->update(to.address() + offset, rows);
  } else {
    queue.update(to, offset, rows);
    count_bytes(device, "update");
  }
}
void enqueue_update(Device device, Storage& to, std::size_t offset, std::span<const std::byte> bytes) {
  Arguments numbers;
  numbers.bytes(bytes);
  enqueue_update(device, to, offset, numbers);
}
void share_memory() { sharing = true; }
bool shares_memory() { return sharing; }
void enqueue_foreign(Device device, const ForeignCall& call) {
  const DeviceQueue queue(device);
  if (CommandSink* sink = sink_for(device, call.op)) {
    sink->foreign(call);
  } else {
    queue.foreign(call);
    count_bytes(device, call.op);
  }
}
ForeignStream* foreign_stream(Device device, std::string& why) {
  if (runs_kernels(device)) return launcher(device).foreign_stream(device, why);
  why = fmt::format("{} runs none of the GPU kernels of ops", device.str());
  return nullptr;
}
bool maps_memory(Device device) { return runs_kernels(device) && launcher(device).maps_memory(device); }
MappedMemory mapped_memory(Device device, std::size_t bytes) { return launcher(device).mapped_memory(device, bytes); }
QueueStats queue_stats(Device device) { return DeviceQueue(device).stats(); }

}  // namespace etna::gpu
