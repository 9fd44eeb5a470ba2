#include <etna/device/internal/choices/kernel_log.h>

#include <utility>

#include <etna/device/internal/device_queue.h>

namespace etna {
namespace {

bool dispatches_nothing(const std::array<std::uint32_t, 3>& groups) {
  return groups[0] == 0 || groups[1] == 0 || groups[2] == 0;
}

}  // namespace

KernelLog::KernelLog(Device device) : device_(device), storages_(device, GraphForm::commands) {
  static_cast<void>(DeviceQueue(device_));  // runs the calls held back
  sink_before_ = gpu::CommandSink::set_current(this);
  hook_before_ = set_allocation_hook(this);
}

KernelLog::~KernelLog() {
  set_allocation_hook(hook_before_);
  gpu::CommandSink::set_current(sink_before_);
}

const std::vector<ChosenKernel>& KernelLog::kernels() {
  static_cast<void>(DeviceQueue(device_));  // runs the calls held back
  return kernels_;
}

void KernelLog::dispatch(const gpu::Dispatch& dispatch) {
  if (dispatches_nothing(dispatch.groups)) return;
  ChosenKernel kernel{.op = std::string(dispatch.op), .kernel = dispatch.shader.name, .groups = dispatch.groups};
#ifdef ETNA_HAS_VULKAN
  detail::add_shader_needs(kernel, dispatch);
#endif
  kernels_.push_back(std::move(kernel));
}

void KernelLog::dispatch(const gpu::CubinDispatch& dispatch) {
  if (dispatches_nothing(dispatch.groups)) return;
  kernels_.push_back({.op = std::string(dispatch.op),
                      .kernel = dispatch.kernel.name,
                      .needs = {"machine code of sm_" + std::to_string(dispatch.kernel.architecture)},
                      .shared_bytes = dispatch.shared_bytes,
                      .threads = dispatch.threads,
                      .groups = dispatch.groups});
}

StoragePtr KernelLog::allocate(Device device, std::size_t bytes) {
  return device == device_ ? storages_.allocate(bytes) : nullptr;
}

}  // namespace etna
