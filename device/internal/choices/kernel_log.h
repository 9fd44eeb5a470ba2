#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/internal/command_sink.h>
#include <etna/device/internal/graph/storages.h>
#include <etna/device/memory.h>

/// Which kernels ops would queue on a GPU, without running any.
namespace etna {

/// A kernel that was chosen, and what its device must offer.
struct ChosenKernel {
  std::string op;
  std::string kernel;
  std::vector<std::string> needs = {};  ///< "float16", "cooperative_matrix", "subgroups" ...; empty where nobody knows
  std::uint64_t shared_bytes = 0;
  std::uint32_t threads = 0;  ///< of a workgroup; 0: unknown
  std::array<std::uint32_t, 3> groups = {1, 1, 1};

  friend bool operator==(const ChosenKernel&, const ChosenKernel&) = default;
};

namespace detail {
/// What the shader declares under these constants. In builds with Vulkan.
void add_shader_needs(ChosenKernel& kernel, const gpu::Dispatch& dispatch);
}  // namespace detail

/// While one lives, what this thread queues on the device is noted in place of running, and storages made there have
/// placeholder addresses and no memory. Ops that move bytes between host and device throw CaptureError.
class KernelLog final : public gpu::CommandSink, public AllocationHook {
 public:
  explicit KernelLog(Device device);
  ~KernelLog() override;
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  /// Those so far, in order, after running the calls held back. Copies and fills by commands, and foreign work, are not
  /// among them.
  const std::vector<ChosenKernel>& kernels();

  Device device() const override { return device_; }
  void dispatch(const gpu::Dispatch& dispatch) override;
  void dispatch(const gpu::CubinDispatch& dispatch) override;
  void copy(std::uint64_t, std::uint64_t, std::size_t) override {}
  void fill(std::uint64_t, std::size_t, std::uint32_t) override {}
  void update(std::uint64_t, const Arguments&) override {}
  void foreign(const gpu::ForeignCall&) override {}
  StoragePtr allocate(Device device, std::size_t bytes) override;

 private:
  Device device_;
  graph::Storages storages_;
  gpu::CommandSink* sink_before_;
  AllocationHook* hook_before_;
  std::vector<ChosenKernel> kernels_;
};

}  // namespace etna
