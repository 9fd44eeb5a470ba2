#include <map>
#include <mutex>

#include <etna/device/internal/command_sink.h>
#include <etna/tensor/internal/capture_hooks.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>
#include <etna/tensor/quant/internal/formats.h>

// The points of grids in the memory of GPUs, for shaders/lib/quant_grids.glsl.
namespace etna::quantized {
namespace {

template <typename... F>
bool is_format_of_points(std::uint32_t gguf_type, quant::FormatList<F...>) {
  return ((F::kPacking == quant::Packing::points && F::kDescription.gguf_type == gguf_type) || ...);
}

/// While one lives, memory and commands of this thread are the device's, even in a capture.
class OutsideOfCaptures {
 public:
  ~OutsideOfCaptures() {
    gpu::CommandSink::set_current(sink_);
    set_allocation_hook(hook_);
  }

 private:
  AllocationHook* hook_ = set_allocation_hook(nullptr);
  gpu::CommandSink* sink_ = gpu::CommandSink::set_current(nullptr);
};

Tensor points_on(Device device) {
  const OutsideOfCaptures scope;
  const MemoryScope use(MemoryUse::weights);
  Tensor table = empty({static_cast<std::int64_t>(sizeof quant::kGridPoints)}, {u8, device});
  gpu::enqueue_update(device, *table.storage(), 0, std::as_bytes(std::span(&quant::kGridPoints, 1)));
  return table;
}

}  // namespace

Pointer BlockMatrix::points(Device device) const {
  if (!is_format_of_points(format, quant::BlockFormats())) return {};
  // One for all weights. Never destroyed: devices are by then.
  static std::mutex& mutex = *new std::mutex;
  static auto& tables = *new std::map<Device, Tensor>;
  const std::lock_guard lock(mutex);
  Tensor& table = tables[device];
  if (!table.defined()) table = points_on(device);
  capture_hooks::touch("points of grids", table);
  return gpu::pointer(table);
}

}  // namespace etna::quantized
